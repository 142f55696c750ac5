"""Mixed precision under its 2.4 names."""
from ...fluid.contrib.mixed_precision import (AutoMixedPrecisionLists, CustomOpLists,
                                              cast_model_to_fp16, cast_parameters_to_fp16,
                                              decorate, fp16_guard)
from . import bf16

__all__ = ['decorate', 'CustomOpLists', 'AutoMixedPrecisionLists', 'fp16_guard',
           'cast_model_to_fp16', 'cast_parameters_to_fp16', 'bf16']
