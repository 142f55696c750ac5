"""One case: a small program, its feeds and parameters, and what running it gives.

This file and cases/ run unchanged in the original (Python 2.7, PaddlePaddle 1.8.5) and in ours: only what
both have is used. cases26/ runs in PaddlePaddle 2.6.2 and in ours. Feeds and parameters come from numpy with a seed that hangs on the case's name, so that
nothing depends on either engine's random streams.
"""
from __future__ import print_function
import contextlib
import zlib

import numpy as np

try:
    import paddle.fluid as fluid
except ImportError:
    import fluid26 as fluid

STEPS = 10  # losses of a training case
LATER = fluid.__name__ == 'fluid26'

CASES = {}  # name -> (group, function)
_used = set()  # layers that the case being built has called


class _Layers(object):
    """fluid.layers, taking note of what is called."""

    def __getattr__(self, name):
        _used.add(name)
        return getattr(fluid.layers, name)


L = _Layers()


def case(function, name=None):
    """Registers a case under its own name; its group is the file that it stands in."""
    name = name or function.__name__
    group = function.__module__.split('.')[-1]
    if name in CASES:
        raise ValueError('two cases are called ' + name)
    CASES[name] = (group, function)
    return function


def cases_of(group):
    return sorted(name for name in CASES if CASES[name][0] == group)


def _generator(*parts):
    return np.random.RandomState(zlib.crc32('/'.join(str(p) for p in parts).encode()) & 0x7fffffff)


def draw(generator, shape, low, high):
    """Numbers between low and high, all different while there is room, in no order, none of them a kink.

    Evenly spaced so that maxima have no ties and relu meets no zero; few bits so that records are small.
    """
    count = int(np.prod(shape)) if len(shape) else 1
    spaced = low + (high - low) * (np.arange(count) + 0.37) / max(count, 1)
    spaced = np.round(spaced * 4096) / 4096 + 1.0 / 16384
    return generator.permutation(spaced).reshape(shape).astype('float32')


class Case(object):
    """What a case builds with: its inputs, and what is to be done with the program."""

    def __init__(self, name):
        self.name = name
        self.inputs = []  # (variable, step -> array, lod, wants a gradient)
        self.initial = {}  # parameter -> array, where the drawn value will not do
        self.steps = 0
        self.gradients = True
        self.random = False  # only shapes and types are compared
        self.compiled = None  # program, loss -> what is run instead of the program
        self.states = []  # more variables that are fetched from the scope at the end
        self.after = None  # executor -> arrays, called after the last step

    def _declare(self, make, shape, dtype, lod, fixed, grad, name):
        name = name or 'in%d' % len(self.inputs)
        dims = list(shape) if fixed else [-1] + list(shape[1:])
        var = fluid.data(name=name, shape=dims, dtype=dtype, lod_level=len(lod) if lod else 0)
        var.stop_gradient = not grad
        self.inputs.append((var, make, lod, grad))
        return var

    def x(self, shape, low=-1.0, high=1.0, lod=None, fixed=False, grad=True, name=None, dtype='float32'):
        """A float input of this shape; its first dimension is declared unknown unless it is fixed."""
        index = len(self.inputs)
        return self._declare(lambda step: draw(_generator(self.name, index, step), shape, low,
                                               high).astype(dtype),
                             shape, dtype, lod, fixed, grad, name)

    def ids(self, shape, below, low=0, lod=None, fixed=False, dtype='int64', name=None):
        """An integer input with numbers from low to below (not included)."""
        index = len(self.inputs)
        return self._declare(
            lambda step: _generator(self.name, index, step).randint(low, below, shape).astype(dtype),
            shape, dtype, lod, fixed, False, name)

    def given(self, array, lod=None, fixed=False, grad=False, name=None):
        """An input with this value at every step."""
        array = np.asarray(array)
        return self._declare(lambda step: array, array.shape, str(array.dtype), lod, fixed, grad, name)

    def train(self, loss, optimizer=None):
        """Ten steps of the optimizer instead of one run; the losses are recorded."""
        (optimizer or fluid.optimizer.SGD(0.1)).minimize(loss)
        self.steps = STEPS
        return loss

    def feed(self, step=0):
        place = fluid.CPUPlace()
        return {var.name: fluid.create_lod_tensor(make(step), lod, place) if lod else make(step)
                for var, make, lod, _ in self.inputs}


@contextlib.contextmanager
def _fresh():
    main, startup = fluid.Program(), fluid.Program()
    with fluid.unique_name.guard(), fluid.program_guard(main, startup), \
            fluid.scope_guard(fluid.Scope()):
        yield main, startup


def _read_by_ops(program):
    """Names; 2.6.2 keeps the weights of a recurrent layer once more in a row, which no op reads."""
    return {name for block in program.blocks for op in block.ops for name in op.input_arg_names}


def _start(c, main, scope, known):
    """Parameters to set: drawn around what the startup program gave where that is a constant.

    known: those of a record, which are taken as they are. Returns values, and the constants.
    """
    values, constants = {}, {}
    for parameter in sorted(main.all_parameters(), key=lambda p: p.name):
        if LATER and parameter.name not in _read_by_ops(main):
            continue
        started = np.array(scope.find_var(parameter.name).get_tensor())
        flat = started.reshape(-1)
        if flat.size and (flat == flat[0]).all():
            constants[parameter.name] = flat[:1].copy()
        if known is not None:
            if parameter.name in known:
                values[parameter.name] = known[parameter.name]
        elif parameter.name in c.initial:
            values[parameter.name] = np.asarray(c.initial[parameter.name], started.dtype)
        else:
            middle = float(flat[0]) if parameter.name in constants else 0.0
            values[parameter.name] = draw(_generator(c.name, parameter.name), started.shape,
                                          middle - 0.4, middle + 0.5).astype(started.dtype)
    return values, constants


def _set(scope, values):
    for name, value in values.items():
        var = scope.find_var(name)
        if var is not None:
            var.get_tensor().set(value, fluid.CPUPlace())


def _array(tensor):
    """(array, lod) of what was fetched."""
    lod = [list(level) for level in tensor.recursive_sequence_lengths()]
    return _dimensioned(np.array(tensor)), lod


def _dimensioned(array):
    """2.6.2 has results without dimensions; 2.4, which is what we are, gives them one of extent 1."""
    return array.reshape(1) if array.ndim == 0 and LATER else array


def _is_float(var):
    return var.dtype in (fluid.core.VarDesc.VarType.FP32, fluid.core.VarDesc.VarType.FP64)


def ops_of(program):
    """Types of the ops, block by block."""
    return [[op.type for op in block.ops] for block in program.blocks]


def run_case(name, parameters=None, expect_gradients=None):
    """Builds and runs a case. Returns its arrays by name, and a description that JSON can hold.

    parameters: initial ones of a record. expect_gradients: whether the record has gradients; None asks
    the engine, and a refusal of append_backward is written down.
    """
    _used.clear()
    c = Case(name)
    with _fresh() as (main, startup):
        outs = CASES[name][1](c)
        outs = list(outs) if isinstance(outs, (list, tuple)) else [outs]
        scope, exe = fluid.global_scope(), fluid.Executor(fluid.CPUPlace())
        about = {'ops': ops_of(main), 'layers': sorted(_used), 'random': c.random,
                 'outs': [[list(o.shape) or [1] * LATER, str(np.dtype(_numpy_type(o)))] for o in outs]}
        arrays = {}
        exe.run(startup)
        initial, constants = _start(c, main, scope, parameters)
        for parameter, value in initial.items():
            arrays['parameter/' + parameter] = value
        for parameter, value in constants.items():
            arrays['constant/' + parameter] = value
        _set(scope, initial)
        if c.steps:
            _train(c, exe, main, outs, arrays)
        else:
            _run(c, exe, main, outs, arrays, about, scope, initial, expect_gradients)
    return arrays, about


def _numpy_type(var):
    types = fluid.core.VarDesc.VarType
    return {types.FP32: 'float32', types.FP64: 'float64', types.INT32: 'int32', types.INT64: 'int64',
            types.BOOL: 'bool', types.UINT8: 'uint8', types.INT8: 'int8', types.FP16: 'float16',
            types.INT16: 'int16'}[var.dtype]


def _keep_feed(arrays, feed, where='feed/'):
    for key, value in feed.items():
        arrays[where + key] = value if isinstance(value, np.ndarray) else _array(value)


def _train(c, exe, main, outs, arrays):
    program = c.compiled(main, outs[0]) if c.compiled else main
    results = []
    for step in range(c.steps):
        feed = c.feed(step)
        _keep_feed(arrays, feed, 'feed%d/' % step)
        results.append(exe.run(program, feed=feed, fetch_list=outs))
    for i in range(len(outs)):
        arrays['loss/%d' % i] = np.concatenate([np.asarray(r[i]).reshape(1, -1) for r in results])
    scope = fluid.global_scope()
    kept = [p.name for p in main.all_parameters() if not LATER or p.name in _read_by_ops(main)]
    for name in kept + c.states:
        arrays['final/' + name] = np.array(scope.find_var(name).get_tensor())
    if c.after:
        for name, value in c.after(exe).items():
            arrays['after/' + name] = value


def _run(c, exe, main, outs, arrays, about, scope, initial, expect_gradients):
    feed = c.feed()
    _keep_feed(arrays, feed)
    found = [_array(t) for t in exe.run(main, feed=feed, fetch_list=outs, return_numpy=False)]
    for i, value in enumerate(found):
        arrays['out/%d' % i] = value
    floats = [(v, value[0]) for v, value in zip(outs, found)
              if _is_float(v) and not v.stop_gradient and value[0].size]
    wanted = [v.name for v, _, _, grad in c.inputs if grad and _is_float(v)]
    wanted += [p.name for p in main.all_parameters() if p.trainable]
    if not (c.gradients and floats and wanted) or expect_gradients is False:
        return
    try:
        parts = []
        for i, (var, value) in enumerate(floats):
            weight = fluid.data('weight%d' % i, [-1] * value.ndim, str(value.dtype))
            feed[weight.name] = draw(_generator(c.name, 'weight', i), value.shape, -1.0,
                                     1.5).astype(value.dtype)
            parts.append(fluid.layers.reduce_sum(fluid.layers.elementwise_mul(var, weight)))
        loss = fluid.layers.sums(parts) if len(parts) > 1 else parts[0]
        fluid.backward.append_backward(loss)
        names = [n for n in wanted if main.global_block().has_var(n + '@GRAD')]
        if not names:
            return
        _set(scope, initial)
        fetched = exe.run(main, feed=feed, fetch_list=[n + '@GRAD' for n in names],
                          return_numpy=False)
    except Exception as error:
        if expect_gradients:
            raise
        about['refused'] = str(error).strip().splitlines()[-1][:200]
        return
    for name, value in zip(names, fetched):
        arrays['gradient/' + name] = _array(value)[0]
