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
from . import debugger, distribute_lookup_table, install_check, log_helper, net_drawer, op, proto, recordio_writer, wrapped_decorator
from .backward import append_backward, gradients
from .core import (CPUPlace, CUDAPinnedPlace, CUDAPlace, LoDTensor, LoDTensorArray, Scope)
from .data import data
from .data_feed_desc import DataFeedDesc
from .data_feeder import DataFeeder
from .dataset import DatasetFactory, InMemoryDataset, QueueDataset
from .input import embedding, one_hot
from .io import load, load_program_state, save, set_program_state
from .layers import learning_rate_scheduler as learning_rate_decay
from .lod_tensor import create_lod_tensor, create_random_int_lodtensor
from .parallel_executor import ParallelExecutor
from .trainer_desc import DistMultiTrainer, MultiTrainer, PipelineTrainer, TrainerDesc
from .transpiler import (DistributeTranspiler, DistributeTranspilerConfig, HashName, RoundRobin, memory_optimize,
                         release_memory)

Tensor = LoDTensor
is_compiled_with_xpu = core.is_compiled_with_xpu


def enable_dygraph(place=None):
    raise NotImplementedError('fluid.enable_dygraph: Trireme runs static programs only')


def disable_dygraph():
    """Static mode is the only one."""


enable_imperative, disable_imperative = enable_dygraph, disable_dygraph

ComplexVariable = compiler.not_built('fluid.ComplexVariable', 'it belongs to dynamic mode, and Trireme runs static programs '
                                     'only; keep the real and the imaginary part in two Variables')
VarBase = compiler.not_built('fluid.VarBase', 'it is a tensor of dynamic mode, and Trireme runs static programs only; '
                             'use fluid.data and layers')


def load_op_library(lib_filename):
    raise NotImplementedError(f'fluid.load_op_library cannot open {lib_filename}: such a library holds code for the '
                              "original's engine. Write the op in Python with fluid.layers.py_func, or in C++ with add_ops "
                              '(ir/added_ops.h)')
