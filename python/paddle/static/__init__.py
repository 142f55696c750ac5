"""paddle.static as programs for 2.4 know it."""
import _trireme as _C

from .. import fluid
from .._style import static_style
from ..fluid.backward import append_backward as _append_backward
from ..fluid.backward import gradients as _gradients
from ..fluid.compiler import BuildStrategy, CompiledProgram, ExecutionStrategy
from ..fluid.executor import Executor, global_scope, scope_guard
from ..fluid.framework import (Program, Variable, cpu_places, cuda_places, default_main_program,
                               default_startup_program, device_guard, name_scope, program_guard)
from ..fluid.optimizer import ExponentialMovingAverage
from ..fluid.param_attr import ParamAttr, WeightNormParamAttr
from ..fluid.parallel_executor import ParallelExecutor
from . import amp, io, nn
from .io import *
from .nn import Print

Scope = fluid.core.Scope

append_backward = static_style(_append_backward)
gradients = static_style(_gradients)


@static_style
def data(name, shape, dtype=None, lod_level=0):
    """A data variable, checked when it is fed; None or -1 where a size is unknown."""
    return _C.checked_data(name, shape, dtype, lod_level)


@static_style
def create_parameter(shape, dtype, name=None, attr=None, is_bias=False, default_initializer=None):
    return _C.create_parameter(shape, dtype, name, attr, is_bias, default_initializer)


@static_style
def create_global_var(shape, value, dtype, persistable=False, force_cpu=False, name=None):
    return _C.create_global_var(shape, value, dtype, persistable, force_cpu, name)


@static_style
def accuracy(input, label, k=1, correct=None, total=None):
    return _C.accuracy(input, label, k, correct, total)


@static_style
def auc(input, label, curve='ROC', num_thresholds=4095, topk=1, slide_steps=1):
    return _C.auc(input, label, curve, num_thresholds, topk, slide_steps)


@static_style
def ctr_metric_bundle(input, label, ins_tag_weight=None):
    """Running sums, kept between steps: squared error, absolute error, predictions, sigmoids, positives, samples."""
    if ins_tag_weight is not None:
        raise NotImplementedError('static.ctr_metric_bundle: ins_tag_weight is not built in Trireme: multiply input '
                                  'and label by it first')
    from ..fluid.contrib.layers import ctr_metric_bundle as sums
    return sums(input, label)


class InputSpec:
    """Shape, dtype and name of something that is fed."""

    def __init__(self, shape, dtype='float32', name=None):
        self.shape = tuple(-1 if dim is None else dim for dim in shape)
        self.dtype = _C.to_dtype(dtype)
        self.name = name

    def __repr__(self):
        return f'InputSpec(shape={self.shape}, dtype={_C.dtype_name(self.dtype)}, name={self.name})'


def xpu_places(device_ids=None):
    raise AssertionError('this build of Trireme has no XPU: use cpu_places()')


py_func = static_style(fluid.layers.py_func)
