"""Quantised training: programs whose operands are rounded as int8 would round them, and their way into inference."""
from ....compiler import not_built
from . import quantization_pass, utils
from .quantization_pass import (AddQuantDequantPass, ConvertToInt8Pass, OutScaleForInferencePass,
                                OutScaleForTrainingPass, QuantizationFreezePass, QuantizationTransformPass,
                                TransformForMobilePass)

__all__ = ['AddQuantDequantPass', 'ConvertToInt8Pass', 'OutScaleForInferencePass', 'OutScaleForTrainingPass',
           'PostTrainingQuantization', 'QuantizationFreezePass', 'QuantizationTransformPass', 'TransformForMobilePass',
           'WeightQuantization', 'quantization_pass', 'utils']

_INSTEAD = 'train with QuantizationTransformPass, then apply QuantizationFreezePass'
PostTrainingQuantization = not_built('slim.quantization.PostTrainingQuantization', _INSTEAD)
WeightQuantization = not_built('slim.quantization.WeightQuantization', _INSTEAD)
