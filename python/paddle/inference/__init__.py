"""paddle.inference: predictors over saved models, by handles.

The engine is that of fluid.core.AnalysisConfig. Options that choose between ways to compute the same numbers are
kept and reported; what needs hardware or a library that is not there is refused where it is asked for.
"""
import enum
import os

import numpy as np

import _trireme as _C

from ..fluid.inference import AnalysisConfig, PaddlePredictor, PaddleTensor, ZeroCopyTensor
from ..version import full_version

__all__ = ['Config', 'DataType', 'PlaceType', 'PrecisionType', 'Predictor', 'PredictorPool', 'Tensor', 'create_predictor',
           'get_version', 'get_num_bytes_of_data_type', 'get_trt_compile_version', 'get_trt_runtime_version',
           'convert_to_mixed_precision']


class PrecisionType(enum.Enum):
    Float32 = 0
    Int8 = 1
    Half = 2
    Bfloat16 = 3


class PlaceType(enum.Enum):
    UNK = -1
    CPU = 0
    GPU = 1
    XPU = 2
    NPU = 3
    CUSTOM = 6


class DataType(enum.Enum):
    FLOAT64 = 'float64'
    FLOAT32 = 'float32'
    INT64 = 'int64'
    INT32 = 'int32'
    UINT8 = 'uint8'
    INT8 = 'int8'
    FLOAT16 = 'float16'
    BFLOAT16 = 'bfloat16'
    BOOL = 'bool'


def get_num_bytes_of_data_type(dtype):
    return 2 if dtype is DataType.BFLOAT16 else np.dtype(dtype.value).itemsize


def get_version():
    return f'version: {full_version}'


def get_trt_compile_version():
    """(0, 0, 0): there is no TensorRT."""
    return 0, 0, 0


get_trt_runtime_version = get_trt_compile_version


def convert_to_mixed_precision(*args, **kwargs):
    raise NotImplementedError('inference.convert_to_mixed_precision is not built in Trireme: predictors compute in '
                              'the precision of the file')


class Config(AnalysisConfig):
    """Config(prog_file, params_file), Config(prefix of both), or Config(model_dir)."""

    Precision = PrecisionType

    def __init__(self, *files):
        super().__init__()
        self._on.update(glog_info=True, profile=False)
        if files:
            self.set_model(*files)

    def set_model(self, first, params_file=None):
        """One path is a folder, or what stands before .pdmodel and .pdiparams."""
        if params_file is None and not os.path.isdir(first) and os.path.exists(first + '.pdmodel'):
            first, params_file = first + '.pdmodel', first + '.pdiparams'
        super().set_model(first, params_file)

    def enable_use_gpu(self, memory_pool_init_size_mb, device_id=0, precision_mode=PrecisionType.Float32):
        super().enable_use_gpu(memory_pool_init_size_mb, device_id)

    def disable_glog_info(self):
        self._on['glog_info'] = False

    def glog_info_disabled(self):
        return not self._on['glog_info']

    def enable_profile(self):
        raise NotImplementedError('Config.enable_profile is not built: run under paddle.fluid.profiler.profiler')

    def enable_memory_optim(self, x=True):
        self._on['memory_optim'] = x

    def disable_mkldnn(self):
        self._on['mkldnn'] = False

    def set_mkldnn_cache_capacity(self, capacity):
        """Nothing to do: compiled kernels are kept by the plan, whatever their number."""

    def enable_onnxruntime(self):
        raise NotImplementedError('Config.enable_onnxruntime: there is no ONNX Runtime in Trireme: leave it out')

    def enable_tensorrt_engine(self, *args, **kwargs):
        raise NotImplementedError('Config.enable_tensorrt_engine: there is no TensorRT in Trireme: leave it out, its '
                                  'passes fuse by themselves')

    def enable_xpu(self, *args, **kwargs):
        raise NotImplementedError('Config.enable_xpu: Trireme does not run on XPU: leave it out')

    def enable_mkldnn_bfloat16(self):
        raise NotImplementedError('Config.enable_mkldnn_bfloat16 is not built: predictors compute in the precision of '
                                  'the file')

    def enable_mkldnn_int8(self, *args, **kwargs):
        raise NotImplementedError('Config.enable_mkldnn_int8 is not built: predictors compute in the precision of the '
                                  'file')

    def tensorrt_engine_enabled(self):
        return False

    def onnxruntime_enabled(self):
        return False

    def use_xpu(self):
        return False

    def delete_pass(self, name):
        """Nothing to do: the original's passes have no names here."""

    def summary(self):
        """Files and options, one a line."""
        model_dir, prog_file, params_file = self._files()
        rows = {'model_dir': model_dir, 'model_file': prog_file, 'params_file': params_file,
                'cpu_math_thread': self.cpu_math_library_num_threads(), **self._on}
        width = max(map(len, rows))
        return '\n'.join(f'{key.ljust(width)}  {value}' for key, value in rows.items())


class Tensor(ZeroCopyTensor):
    """One input or output of a predictor: copy_from_cpu(array), copy_to_cpu()."""

    def copy_from_cpu(self, data):
        if isinstance(data, (list, tuple)):
            data = np.asarray(data)
        if not isinstance(data, np.ndarray):
            raise TypeError(f'copy_from_cpu takes an array, got {type(data).__name__}')
        super().copy_from_cpu(data)

    def share_external_data(self, data):
        """The next runs read the data where it stands: it is not to change while one goes on."""
        self._take(data, True)

    def shape(self):
        name, predictor = self.name, self._predictor
        if name in predictor._names:
            given = predictor._inputs.get(name)
            if given is not None:
                return given.shape()
            return self._shape or list(predictor._program.global_block().var(name).shape)
        return self._output().shape()

    def type(self):
        source = self._predictor._inputs.get(self.name) if self.name in self._predictor._names else self._output()
        if source is None:
            raise RuntimeError(f'{self.name} has no value yet: call copy_from_cpu first')
        return DataType(_C.dtype_name(source._dtype()))


class Predictor(PaddlePredictor):
    """A model with a scope and an executor of its own; make it by create_predictor."""

    def get_input_handle(self, name):
        self._tensor(name, self._names)
        return Tensor(self, name)

    def get_output_handle(self, name):
        self._tensor(name, self.get_output_names())
        return Tensor(self, name)

    def run(self, inputs=None):
        """With arrays: those of the outputs. Without: of what the handles were given; True."""
        if inputs is None:
            self.zero_copy_run()
            return True
        if len(inputs) != len(self._names):
            raise ValueError(f'the model has {len(self._names)} inputs, {self._names}; got {len(inputs)}')
        outputs = self._run({name: value.as_ndarray() if isinstance(value, PaddleTensor) else np.asarray(value)
                             for name, value in zip(self._names, inputs)})
        return [np.asarray(tensor) for tensor in outputs]

    def get_input_types(self):
        block = self._program.global_block()
        return {name: DataType(_C.dtype_name(block.var(name).dtype)) for name in self._names}

    def clear_intermediate_tensor(self):
        """Nothing to do: what lies between inputs and outputs is not kept."""

    def try_shrink_memory(self):
        """0: no memory is held that could be given back between runs."""
        return 0


def create_predictor(config):
    if not isinstance(config, Config):
        raise TypeError(f'create_predictor takes an inference.Config, got {type(config).__name__}')
    return Predictor(config)


class PredictorPool:
    """Several predictors of one model, one for each thread that predicts."""

    def __init__(self, config, size=1):
        if size < 1:
            raise ValueError(f'a pool of {size} predictors is none')
        first = create_predictor(config)
        self._predictors = [first] + [first.clone() for _ in range(size - 1)]

    def retrieve(self, idx):
        return self._predictors[idx]

    # The original's spelling, which programs use.
    retrive = retrieve
