"""Predictors over saved inference models: what fluid.core names of the original's inference library.

A predictor has a scope and an executor of its own. Options that choose between ways of computing the
same numbers are kept and reported, and change nothing; a GPU is refused when the predictor is made.
"""
import copy
import enum
import os
import warnings

import numpy as np

import _trireme as _C

from . import lod_tensor

__all__ = ['AnalysisConfig', 'NativeConfig', 'PaddleBuf', 'PaddleDType', 'PaddlePredictor', 'PaddleTensor',
           'create_paddle_predictor']


class PaddleDType(enum.Enum):
    FLOAT32 = 'float32'
    INT64 = 'int64'
    INT32 = 'int32'
    UINT8 = 'uint8'

    @staticmethod
    def _of(array):
        try:
            return PaddleDType(str(array.dtype))
        except ValueError:
            raise TypeError(f'a PaddleTensor does not hold {array.dtype}: use float32, int64, int32 or '
                            'uint8') from None


_DTYPES = {np.dtype(one.value) for one in PaddleDType}
_PLACE = _C.CPUPlace()


class PaddleBuf:
    """The values of a PaddleTensor, flat."""

    def __init__(self, data=None):
        self.reset(np.zeros(0, 'float32') if data is None else data)

    def reset(self, data):
        data = np.asarray(data)
        if data.dtype == np.float64:
            data = data.astype('float32')  # lists of Python floats
        self._values = np.ascontiguousarray(data).reshape(-1)

    def length(self):
        """In bytes."""
        return self._values.nbytes

    def empty(self):
        return self._values.size == 0

    def tolist(self, dtype='float'):
        return self._read({'float': 'float32', 'int': 'int32'}.get(dtype, dtype)).tolist()

    def float_data(self):
        return self.tolist('float32')

    def int64_data(self):
        return self.tolist('int64')

    def int32_data(self):
        return self.tolist('int32')

    def _read(self, dtype):
        if self._values.dtype != dtype:
            raise TypeError(f'the values are {self._values.dtype}, not {dtype}')
        return self._values


class PaddleTensor:
    """A named array with LoD offsets: PaddleTensor(array), or an empty one whose fields are set."""

    def __init__(self, data=None, name=''):
        array = np.zeros(0, 'float32') if data is None else np.asarray(data)
        self.name = name
        self.data = PaddleBuf(array)
        self.shape = list(array.shape)
        self.dtype = PaddleDType._of(self.data._values)
        self.lod = []

    def as_ndarray(self):
        return self.data._read(self.dtype.value).reshape(self.shape)

    def _feed(self):
        array = self.as_ndarray()
        if not self.lod:
            return array
        lengths = [np.diff(level).tolist() for level in self.lod]
        return lod_tensor.create_lod_tensor(array, lengths, _C.CPUPlace())

    @staticmethod
    def _fetched(name, tensor):
        out = PaddleTensor(np.array(tensor), name)
        out.lod = tensor.lod()
        return out


class NativeConfig:
    """Where the model is: model_dir, or prog_file and param_file."""

    def __init__(self):
        self.model_dir = ''
        self.prog_file = ''
        self.param_file = ''
        self.use_gpu = False
        self.device = 0
        self.fraction_of_gpu_memory = -1.0
        self.specify_input_name = False

    def _files(self):
        return self.model_dir, self.prog_file, self.param_file

    def _gpu_number(self):
        return self.device if self.use_gpu else None

    def _by_name(self):
        return self.specify_input_name


class AnalysisConfig:
    """AnalysisConfig(model_dir) or AnalysisConfig(prog_file, params_file)."""

    class Precision(enum.Enum):
        Float32 = 0
        Int8 = 1
        Half = 2

    def __init__(self, *files):
        self._model_dir = self._prog_file = self._params_file = ''
        self._gpu = None
        self._on = {'ir_optim': True, 'use_feed_fetch_ops': True, 'specify_input_names': False,
                    'mkldnn': False, 'memory_optim': False}
        self._threads = 0
        if files:
            self.set_model(*files)

    def set_model(self, first, params_file=None):
        if params_file is None:
            self._model_dir, self._prog_file, self._params_file = first, '', ''
        else:
            self._model_dir, self._prog_file, self._params_file = '', first, params_file

    def set_prog_file(self, path):
        self._prog_file = path

    def set_params_file(self, path):
        self._params_file = path

    def model_dir(self):
        return self._model_dir

    def prog_file(self):
        return self._prog_file

    def params_file(self):
        return self._params_file

    def enable_use_gpu(self, memory_pool_init_size_mb, device_id=0):
        """The predictor computes there; its memory is taken when it is needed, not beforehand."""
        self._gpu = device_id

    def disable_gpu(self):
        self._gpu = None

    def use_gpu(self):
        return self._gpu is not None

    def gpu_device_id(self):
        return self._gpu or 0

    def switch_ir_optim(self, x=True):
        if not x:
            warnings.warn('switch_ir_optim(False) changes nothing in Trireme: its passes stay on, '
                          'with the same results')
        self._on['ir_optim'] = x

    def ir_optim(self):
        return self._on['ir_optim']

    def enable_memory_optim(self):
        self._on['memory_optim'] = True

    def enable_mkldnn(self):
        self._on['mkldnn'] = True

    def mkldnn_enabled(self):
        return self._on['mkldnn']

    def switch_use_feed_fetch_ops(self, x=True):
        self._on['use_feed_fetch_ops'] = x

    def use_feed_fetch_ops_enabled(self):
        return self._on['use_feed_fetch_ops']

    def switch_specify_input_names(self, x=True):
        self._on['specify_input_names'] = x

    def specify_input_name(self):
        return self._on['specify_input_names']

    def set_cpu_math_library_num_threads(self, count):
        """Threads that a run of the predictor takes; all cores where nobody says. Results do not depend on it."""
        if count < 1:
            raise ValueError(f'a run takes 1 thread at least, got {count}')
        self._threads = count

    def cpu_math_library_num_threads(self):
        return self._threads or 1

    def _files(self):
        return self._model_dir, self._prog_file, self._params_file

    def _gpu_number(self):
        return self._gpu

    def _by_name(self):
        return self.specify_input_name()


class ZeroCopyTensor:
    """One input or output of a predictor. Inputs keep their memory from run to run."""

    def __init__(self, predictor, name):
        self._predictor = predictor
        self.name = name
        self._shape = None
        self._lod = []

    def reshape(self, shape):
        self._shape = list(shape)

    def set_lod(self, lod):
        self._lod = [list(level) for level in lod]
        given = self._predictor._inputs.get(self.name)
        if given is not None and (not lod or self._lod[-1][-1] == given.shape()[0]):
            given.set_lod(self._lod)

    def copy_from_cpu(self, data):
        self._take(data, False)

    def _take(self, data, shared):
        """A copy of the data, or the data's own memory."""
        array = data if type(data) is np.ndarray else np.asarray(data)
        if array.dtype not in _DTYPES:
            if array.dtype != np.float64:
                PaddleDType._of(array)  # says which there are
            array = array.astype('float32')  # lists of Python floats
        if self._shape is not None:
            array = array.reshape(self._shape)
        inputs, borrowed = self._predictor._inputs, self._predictor._borrowed
        given = inputs.get(self.name)
        if given is None or shared or self.name in borrowed:
            given = inputs[self.name] = _C.LoDTensor()  # never into memory that is the user's
        given.set(array, _PLACE, shared)
        if self._lod or given.lod():
            given.set_lod(self._lod)
        (borrowed.add if shared else borrowed.discard)(self.name)

    def copy_to_cpu(self):
        """An array; the first that is asked for after a run is the run's own memory, which nobody else has."""
        held = self._output()
        first = self.name in self._predictor._untaken
        self._predictor._untaken.discard(self.name)
        return np.asarray(held) if first else np.array(held)

    def lod(self):
        return self._output().lod()

    def _output(self):
        if self.name not in self._predictor._outputs:
            raise RuntimeError(f'{self.name} has no value yet: call zero_copy_run first')
        return self._predictor._outputs[self.name]


class PaddlePredictor:
    """run([PaddleTensor, ...]) gives PaddleTensors; or the tensors by name and zero_copy_run()."""

    def __init__(self, config):
        from . import executor, io
        self._config = config
        self._scope = _C.Scope()
        gpu = config._gpu_number()
        engine = executor.Executor(_C.CPUPlace() if gpu is None else _C.CUDAPlace(gpu))
        self._engine = engine._engine
        model_dir, *files = config._files()
        if bool(model_dir) == any(files):
            raise ValueError('the config must name a model_dir, or a prog_file and a params_file')
        with executor.scope_guard(self._scope):
            self._program, self._names, self._targets = io.load_inference_model(
                model_dir or os.path.dirname(os.path.abspath(files[0])), engine,
                *[os.path.abspath(file) if file else None for file in files])
        self._named = set(self._names)
        self._outs = [target.name for target in self._targets]
        self._threads = getattr(config, '_threads', 0)
        self._begin()

    def _begin(self):
        self._inputs, self._outputs = {}, {}  # tensors by name
        self._borrowed = set()  # inputs whose memory is the user's
        self._untaken = set()  # outputs that nobody has seen since the last run

    def run(self, inputs):
        """Inputs stand in the order of get_input_names(), or are found by their names."""
        if not isinstance(inputs, (list, tuple)) or not all(isinstance(t, PaddleTensor) for t in inputs):
            raise TypeError(f'a predictor is fed a list of PaddleTensors, one for each of {self._names}')
        if len(inputs) != len(self._names):
            raise ValueError(f'the model has {len(self._names)} inputs, {self._names}; got {len(inputs)}')
        by_name = self._config._by_name() or all(tensor.name in self._names for tensor in inputs)
        names = [tensor.name for tensor in inputs] if by_name else self._names
        values = self._run({name: tensor._feed() for name, tensor in zip(names, inputs)})
        return [PaddleTensor._fetched(name, value) for name, value in zip(self._outs, values)]

    def _run(self, feed):
        if feed.keys() != self._named:
            raise ValueError(f'the model takes {self._names}; got {list(feed)}')
        return self._engine.run(self._program, feed, self._outs, self._scope, return_numpy=False, use_prune=False,
                                keep_optimizers=False, threads=self._threads)

    def zero_copy_run(self):
        if len(self._inputs) < len(self._names):
            missing = [name for name in self._names if name not in self._inputs]
            raise RuntimeError(f'the inputs {missing} have no value: call get_input_tensor(name).copy_from_cpu')
        self._outputs = dict(zip(self._outs, self._run(self._inputs)))
        self._untaken = set(self._outs)

    def get_input_names(self):
        return list(self._names)

    def get_output_names(self):
        return list(self._outs)

    def get_input_tensor(self, name):
        return self._tensor(name, self._names)

    def get_output_tensor(self, name):
        return self._tensor(name, self.get_output_names())

    def _tensor(self, name, names):
        if name not in names:
            raise ValueError(f'the model has no {name} among {names}')
        return ZeroCopyTensor(self, name)

    def get_input_tensor_shape(self):
        block = self._program.global_block()
        return {name: list(block.var(name).shape) for name in self._names}

    def clone(self):
        """One that shares program and parameters, for another thread: its inputs and outputs are its own."""
        made = copy.copy(self)
        made._begin()
        return made


def create_paddle_predictor(config):
    if not isinstance(config, (NativeConfig, AnalysisConfig)):
        raise TypeError(f'config must be a NativeConfig or an AnalysisConfig, got {type(config).__name__}')
    return PaddlePredictor(config)
