"""Blocks that run under a condition; loops are not built yet."""
import contextlib

import _trireme as _C

from ..compiler import not_built

__all__ = ['Switch', 'ConditionalBlock', 'While', 'StaticRNN', 'DynamicRNN', 'IfElse', 'Print',
           'create_array', 'array_write', 'array_read', 'array_length', 'is_empty', 'cond', 'case',
           'switch_case', 'while_loop']


@contextlib.contextmanager
def _inside(block):
    block.begin()
    try:
        yield
    except BaseException:
        block.abandon()
        raise
    block.complete()


class ConditionalBlock:
    """Ops built inside block() run when the inputs say so."""

    def __init__(self, inputs, is_scalar_condition=False, name=None):
        self._block = _C.ConditionalBlock(list(inputs), is_scalar_condition, name)

    def block(self):
        return _inside(self._block)


class Switch:
    """with Switch() as s: with s.case(condition): ...; with s.default(): ..."""

    def __init__(self, name=None):
        self._switch = _C.Switch()
        self.inside_scope = False

    def case(self, condition):
        if not self.inside_scope:
            raise ValueError('case should be called inside with')
        return _inside(self._switch.when(condition))

    def default(self):
        if not self.inside_scope:
            raise ValueError('default should be called inside with')
        return _inside(self._switch.otherwise())

    def __enter__(self):
        self.inside_scope = True
        return self

    def __exit__(self, *error):
        self.inside_scope = False
        return False


_instead = 'control flow beyond Switch and ConditionalBlock comes later'
While = not_built('layers.While', _instead)
StaticRNN = not_built('layers.StaticRNN', _instead)
DynamicRNN = not_built('layers.DynamicRNN', _instead)
IfElse = not_built('layers.IfElse', _instead)


def _not_built(name, instead=''):
    def layer(*args, **kwargs):
        raise NotImplementedError(f'layers.{name} is not built yet in Trireme{instead}')
    layer.__name__ = name
    layer.__doc__ = f'layers.{name}: not built yet.'
    return layer


create_array = _not_built('create_array', ': ' + _instead)
array_write = _not_built('array_write', ': ' + _instead)
array_read = _not_built('array_read', ': ' + _instead)
array_length = _not_built('array_length', ': ' + _instead)
cond = _not_built('cond', ': ' + _instead)
case = _not_built('case', ': ' + _instead)
switch_case = _not_built('switch_case', ': ' + _instead)
while_loop = _not_built('while_loop', ': ' + _instead)


def is_empty(x, cond=None):
    return _C.apply('is_empty', {'X': x}, stop_gradient=True)['Out'][0]


def Print(input, first_n=-1, message=None, summarize=20, print_tensor_name=True,
          print_tensor_type=True, print_tensor_shape=True, print_tensor_layout=True,
          print_tensor_lod=True, print_phase='both'):
    """Passes input on, and prints it whenever it is computed."""
    attrs = {'first_n': first_n, 'message': message or '', 'summarize': summarize,
             'print_tensor_name': print_tensor_name, 'print_tensor_type': print_tensor_type,
             'print_tensor_shape': print_tensor_shape, 'print_tensor_layout': print_tensor_layout,
             'print_tensor_lod': print_tensor_lod, 'print_phase': print_phase.upper()}
    known = {attr['name'] for attr in _C.op_row('print')['attrs']}
    return _C.apply('print', {'In': input}, {k: v for k, v in attrs.items() if k in known},
                    layer='print')['Out'][0]
