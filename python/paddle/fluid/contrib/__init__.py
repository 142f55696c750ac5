"""fluid.contrib: layers, decoders, mixed precision, readers, statistics; what is not built says so when used."""
from . import decoder, extend_optimizer, inferencer, layers, memory_usage_calc, mixed_precision, model_stat, op_frequence
from . import quantize, reader, slim, trainer, utils
from .decoder import *
from .extend_optimizer import extend_with_decoupled_weight_decay
from .layers import *
from .memory_usage_calc import memory_usage
from .mixed_precision import AutoMixedPrecisionLists, decorate
from .model_stat import summary
from .op_frequence import op_freq_statistic
from .inferencer import Inferencer
from .quantize import QuantizeTranspiler
from .reader import distributed_batch_reader
from .slim import Compressor
from .trainer import *
from .utils import *

__all__ = layers.__all__ + trainer.__all__ + decoder.__all__ + utils.__all__ + [
    'AutoMixedPrecisionLists', 'Compressor', 'Inferencer', 'QuantizeTranspiler', 'decorate', 'distributed_batch_reader',
    'extend_with_decoupled_weight_decay', 'memory_usage', 'op_freq_statistic', 'summary']


def __getattr__(name):
    if name.startswith('__'):
        raise AttributeError(name)
    raise NotImplementedError(f'paddle.fluid.contrib.{name} is not built yet in Trireme')
