"""What a command line names: a script that is run, or a saved model that is loaded and given a feed."""
import os

import numpy

import _trireme as _C

from ..doctor.models import is_model
from ..fluid import core, framework
from ..fluid import io as fluid_io
from ..fluid.executor import Executor, scope_guard
from .watch import Call, run_script


def feed_from_file(path):
    """The arrays of an .npz file, by name."""
    with numpy.load(path) as held:
        return {name: held[name] for name in held.files}


def made_feed(program, names, batch=4, shapes=None):
    """Numbers from a fixed seed in the declared shapes; whole numbers are 0, which every table has."""
    numbers = numpy.random.RandomState(1)
    feed = {}
    for name in names:
        var = program.global_block().var(name)
        shape = list((shapes or {}).get(name) or [batch if i == 0 else extent for i, extent in enumerate(var.shape)])
        if any(extent < 0 for extent in shape[1:]):
            raise ValueError(f'{name} has the shape {list(var.shape)}: say what it is fed with --feed data.npz')
        shape = [batch if extent < 0 else extent for extent in shape]
        dtype = _C.dtype_name(var.dtype)
        array = numbers.standard_normal(shape).astype(dtype) if dtype.startswith('float') else numpy.zeros(shape, dtype)
        if var.lod_level:
            tensor = core.LoDTensor()
            tensor.set(array, core.CPUPlace())
            tensor.set_recursive_sequence_lengths([[1] * shape[0]] * var.lod_level)
            array = tensor
        feed[name] = array
    return feed


def load_model(path, executor):
    """(program, feed names, fetch variables) of a folder of fluid or of a file pair of 2.x."""
    if os.path.isdir(path):
        return fluid_io.load_inference_model(path, executor)
    if path.endswith('.pdmodel'):
        from .. import static
        return static.load_inference_model(path[:-len('.pdmodel')], executor)
    return fluid_io.load_inference_model(os.path.dirname(path) or '.', executor, model_filename=os.path.basename(path))


def is_script(path):
    return path.endswith('.py') and os.path.isfile(path)


def is_a_model(path):
    return os.path.isdir(path) or (os.path.isfile(path) and is_model(path))


def call_of_model(path, feed=None, runs=3):
    """A saved model, run a few times on a feed; without one on numbers that are made up."""
    scope, executor = core.Scope(), Executor(core.CPUPlace())
    with scope_guard(scope):
        program, names, fetches = load_model(path, executor)
        feed = feed or made_feed(program, names)
        call = Call(executor, program, [framework_name(each) for each in fetches])
        call.feed, call.scope = feed, scope
        for _ in range(runs):
            _C.start_profiling()
            try:
                executor.run(program, feed=feed, fetch_list=fetches)
            finally:
                events = _C.stop_profiling()
            call.steps.append(events)
            call.runs += 1
    return call


def framework_name(variable):
    return variable.name if isinstance(variable, framework.Variable) else str(variable)


def call_of(path, arguments=(), feed=None, times=True, stop_after=None, name=''):
    """(the Call, the status that a script ended with)"""
    if is_script(path):
        watch, status = run_script(path, arguments, times, stop_after, name)
        return watch.chosen(), status
    if is_a_model(path):
        return call_of_model(path, feed), 0
    raise SystemExit(f'{path} is neither a Python script nor a saved model (a folder with __model__, or *.pdmodel)')
