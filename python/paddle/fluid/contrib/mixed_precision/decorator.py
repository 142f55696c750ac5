"""paddle.fluid.contrib.mixed_precision.decorator, where some programs import decorate from."""
from . import AutoMixedPrecisionLists, OptimizerWithMixedPrecision, decorate

__all__ = ['AutoMixedPrecisionLists', 'OptimizerWithMixedPrecision', 'OptimizerWithMixedPrecison', 'decorate']

OptimizerWithMixedPrecison = OptimizerWithMixedPrecision  # the original's spelling
