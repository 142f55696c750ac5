"""Quantised training: programs whose operands are rounded as int8 would round them, and their way into inference."""
from ....compiler import not_built
from . import quantization_pass, utils
from .quantization_pass import (AddQuantDequantPass, ConvertToInt8Pass, OutScaleForInferencePass,
                                OutScaleForTrainingPass, QuantizationFreezePass, QuantizationTransformPass,
                                TransformForMobilePass)

__all__ = ['AddQuantDequantPass', 'ConvertToInt8Pass', 'MKLDNNPostTrainingQuantStrategy', 'OutScaleForInferencePass',
           'OutScaleForTrainingPass', 'PostTrainingQuantization', 'Qat2Int8MkldnnPass', 'QatInt8MkldnnPass',
           'QuantizationFreezePass', 'QuantizationStrategy', 'QuantizationTransformPass', 'TransformForMobilePass',
           'WeightQuantization', 'quantization_pass', 'utils']

_INSTEAD = 'train with QuantizationTransformPass, then apply QuantizationFreezePass'
PostTrainingQuantization = not_built('slim.quantization.PostTrainingQuantization', _INSTEAD)
WeightQuantization = not_built('slim.quantization.WeightQuantization', _INSTEAD)
QuantizationStrategy = not_built('slim.quantization.QuantizationStrategy', _INSTEAD)
MKLDNNPostTrainingQuantStrategy = not_built('slim.quantization.MKLDNNPostTrainingQuantStrategy', _INSTEAD)
_FLOATS = 'a frozen program computes with the whole numbers in float32: run that one'
QatInt8MkldnnPass = not_built('slim.quantization.QatInt8MkldnnPass', _FLOATS)
Qat2Int8MkldnnPass = not_built('slim.quantization.Qat2Int8MkldnnPass', _FLOATS)
