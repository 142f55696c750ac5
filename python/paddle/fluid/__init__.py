"""paddle.fluid as programs for 1.8 know it."""
from . import core
from . import framework
from .framework import *
from . import unique_name
from . import compiler
from .compiler import *
from . import executor
from .executor import *
from . import param_attr
from .param_attr import ParamAttr, WeightNormParamAttr
from . import initializer, regularizer, clip
from . import layers
from . import average, backward, communicator, contrib, data_feeder, dygraph, evaluator, input, io, layer_helper
from . import dataset, incubate, lod_tensor, metrics, nets, optimizer, parallel_executor, profiler, transpiler
from . import debugger, distribute_lookup_table, install_check, log_helper, net_drawer, op, proto, wrapped_decorator
from .backward import append_backward, gradients
from .core import (CPUPlace, CUDAPinnedPlace, CUDAPlace, LoDTensor, LoDTensorArray, Scope)
from .data import data
from .data_feeder import DataFeeder
from .dataset import DatasetFactory, InMemoryDataset, QueueDataset
from .input import embedding, one_hot
from .io import load, load_program_state, save, set_program_state
from .lod_tensor import create_lod_tensor, create_random_int_lodtensor
from .parallel_executor import ParallelExecutor
from .transpiler import (DistributeTranspiler, DistributeTranspilerConfig, HashName, RoundRobin, memory_optimize,
                         release_memory)

Tensor = LoDTensor
is_compiled_with_xpu = core.is_compiled_with_xpu


def enable_dygraph(place=None):
    raise NotImplementedError('fluid.enable_dygraph: Trireme runs static programs only')


def disable_dygraph():
    """Static mode is the only one."""


enable_imperative, disable_imperative = enable_dygraph, disable_dygraph
