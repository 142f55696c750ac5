"""Single ops that run on the variables of a scope: Operator('mul', X='x', Y='y', Out='out').run(scope, place)."""
import _trireme as _C

from . import core
from .executor import Executor
from .framework import Program
from .op_proto import OpProto, get_all_op_protos

__all__ = ['Operator', 'OpDescCreationMethod', 'OpInfo', 'OperatorFactory', 'get_all_op_protos', 'is_str',
           'create_op_creation_method']


def is_str(value):
    return isinstance(value, str)


def _names(proto, slot, given):
    names = list(given) if isinstance(given, (list, tuple)) else [given]
    if not slot.duplicable and len(names) > 1:
        raise ValueError(f'{slot.name} of {proto.type} takes one variable, got {len(names)}: {names}')
    if not all(isinstance(name, str) for name in names):
        raise ValueError(f'{slot.name} of {proto.type} takes names of variables, got {names}')
    return names


class _ScopeOp:
    """An op whose operands and results are variables of the scope that run() gets."""

    def __init__(self, proto, arguments):
        known = {slot.name for slot in proto.inputs + proto.outputs} | {attr.name for attr in proto.attrs}
        unknown = sorted(set(arguments) - known)
        if unknown:
            raise ValueError(f'{proto.type} has no slot and no attribute {", ".join(unknown)}: it has '
                             f'{", ".join(sorted(known))}')
        self._proto = proto
        self._inputs = {slot.name: _names(proto, slot, arguments.get(slot.name, [])) for slot in proto.inputs}
        self._outputs = {slot.name: _names(proto, slot, arguments.get(slot.name, [])) for slot in proto.outputs}
        self._attrs = {attr.name: arguments[attr.name] for attr in proto.attrs if attr.name in arguments}

    def type(self):
        return self._proto.type

    def inputs(self):
        return dict(self._inputs)

    def outputs(self):
        return dict(self._outputs)

    def input_vars(self):
        return [name for names in self._inputs.values() for name in names]

    def output_vars(self):
        return [name for names in self._outputs.values() for name in names]

    def no_intermediate_outputs(self):
        return [name for slot in self._proto.outputs if not slot.intermediate for name in self._outputs[slot.name]]

    def support_gpu(self):
        return core.op_support_gpu(self.type())

    def __str__(self):
        def shown(slots):
            return ', '.join(f'{slot}[{", ".join(names)}]' for slot, names in slots.items())
        return f'Op({self.type()}), inputs:{{{shown(self._inputs)}}}, outputs:{{{shown(self._outputs)}}}.'

    def run(self, scope, place):
        """Reads and writes variables of scope, as a program of this one op."""
        program = Program()
        block = program.global_block()
        for name in dict.fromkeys(self.input_vars()):
            found = scope.find_var(name)
            if found is None or not found.is_initialized():
                raise RuntimeError(f'{self}: {name} has no value in the scope')
            tensor = found.get_tensor()
            block.create_var(name=name, shape=tensor.shape(), dtype=tensor._dtype(), persistable=True,
                             lod_level=len(tensor.lod()))
        for name in dict.fromkeys(self.output_vars()):
            scope.var(name)
            if not block.has_var(name):
                block.create_var(name=name, persistable=True)
        block.append_op(type=self.type(), inputs=self._inputs, attrs=self._attrs,
                        outputs={slot: names for slot, names in self._outputs.items() if names})
        Executor(place).run(program, scope=scope)


class OpDescCreationMethod:
    """Called with slots and attributes by name, makes the op of one OpProto."""

    def __init__(self, op_proto):
        if not isinstance(op_proto, OpProto):
            raise TypeError(f'op_proto must be an OpProto, got {type(op_proto).__name__}')
        self._proto = op_proto

    def __call__(self, *args, **kwargs):
        if args:
            raise ValueError('all arguments but the type are given by name')
        return _ScopeOp(self._proto, kwargs)


class OpInfo:
    """What is known of one op: slots as (name, whether it takes several), names of attributes."""

    def __init__(self, name, method, inputs, outputs, attrs):
        self.name, self.method = name, method
        self.inputs, self.outputs, self.attrs = inputs, outputs, attrs


def create_op_creation_method(op_proto):
    return OpInfo(op_proto.type, OpDescCreationMethod(op_proto),
                  [(slot.name, slot.duplicable) for slot in op_proto.inputs],
                  [(slot.name, slot.duplicable) for slot in op_proto.outputs],
                  [attr.name for attr in op_proto.attrs])


class OperatorFactory:
    """Operator(type, slots and attributes by name), and questions about types."""

    def __call__(self, *args, **kwargs):
        if 'type' in kwargs:
            if args:
                raise ValueError('all arguments but the type are given by name')
            kind = kwargs.pop('type')
        elif len(args) == 1:
            kind, = args
        else:
            raise ValueError('all arguments but the type are given by name')
        return self.get_op_info(kind).method(**kwargs)

    def types(self):
        return [kind for kind in _C.op_types() if not _C.op_row(kind)['is_grad']]

    def get_op_info(self, t):
        if not _C.has_op(t):
            raise ValueError(f'there is no operator {t!r} in the op table')
        return create_op_creation_method(OpProto(_C.op_row(t)))


def _question(part, names_alone):
    """What an operator's row says of its inputs, outputs or attrs; names_alone: without whether there may be several."""
    def ask(self, type):
        said = getattr(self.get_op_info(type), part)
        return [name for name, _ in said] if names_alone else said
    return ask


OperatorFactory.get_op_inputs = _question('inputs', False)
OperatorFactory.get_op_input_names = _question('inputs', True)
OperatorFactory.get_op_outputs = _question('outputs', False)
OperatorFactory.get_op_output_names = _question('outputs', True)
OperatorFactory.get_op_attr_names = _question('attrs', False)

Operator = OperatorFactory()
