"""What files of layers imported at their top."""
from .fluid import core, layers, unique_name
from .fluid.data_feeder import check_dtype, check_type, check_variable_and_dtype, convert_dtype
from .fluid.framework import (OpProtoHolder, Variable, convert_np_dtype_to_dtype_, default_main_program,
                              device_guard, in_dygraph_mode)
from .fluid.initializer import Constant
from .fluid.layer_helper import LayerHelper
from .fluid.param_attr import ParamAttr

__all__ = ['Constant', 'LayerHelper', 'OpProtoHolder', 'ParamAttr', 'Variable', 'check_dtype', 'check_type',
           'check_variable_and_dtype', 'convert_dtype', 'convert_np_dtype_to_dtype_', 'core',
           'default_main_program', 'device_guard', 'in_dygraph_mode', 'layers', 'unique_name']
