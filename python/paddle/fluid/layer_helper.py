"""LayerHelper: names a layer and makes its parameters, temporaries and ops; for layers of one's own."""
import _trireme as _C

from .framework import Parameter, Variable, default_main_program, default_startup_program
from .initializer import ConstantInitializer, XavierInitializer
from .param_attr import ParamAttr

__all__ = ['LayerHelper']


class LayerHelper:
    def __init__(self, layer_type, **kwargs):
        self.layer_type = layer_type
        self.kwargs = kwargs
        name = kwargs.get('name')
        self._name = _C.generate_name(layer_type) if name is None else name

    name = property(lambda self: self._name)
    main_program = property(lambda self: default_main_program())
    startup_program = property(lambda self: default_startup_program())
    param_attr = property(lambda self: ParamAttr._to_attr(self.kwargs.get('param_attr')))
    bias_attr = property(lambda self: ParamAttr._to_attr(self.kwargs.get('bias_attr')))

    def append_op(self, *args, **kwargs):
        return self.main_program.current_block().append_op(*args, **kwargs)

    def multiple_input(self, input_param_name='input'):
        inputs = self.kwargs.get(input_param_name, [])
        return list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]

    def input(self, input_param_name='input'):
        inputs = self.multiple_input(input_param_name)
        if len(inputs) != 1:
            raise ValueError(f'{self.layer_type} takes one input, got {len(inputs)}')
        return inputs[0]

    def multiple_param_attr(self, length):
        attrs = self.param_attr
        if not isinstance(attrs, list):
            attrs = [attrs]
        if len(attrs) not in (1, length):
            raise ValueError(f'param_attr has {len(attrs)} entries for {length} inputs')
        return attrs * length if len(attrs) == 1 else attrs

    def iter_inputs_and_params(self, input_param_name='input'):
        inputs = self.multiple_input(input_param_name)
        return zip(inputs, self.multiple_param_attr(len(inputs)))

    def input_dtype(self, input_param_name='input'):
        dtypes = {var.dtype for var in self.multiple_input(input_param_name)}
        if len(dtypes) > 1:
            raise ValueError(f'the inputs of {self.layer_type} have different dtypes: {dtypes}')
        return dtypes.pop() if dtypes else None

    def create_parameter(self, attr, shape, dtype=None, is_bias=False, default_initializer=None,
                         stop_gradient=False, type=None):
        """In the main program, with its initializer in the startup program; None for attr False."""
        attr = ParamAttr._to_attr(attr)
        if attr is False:
            return None
        name = attr.name or _C.generate_name(self.name + ('.b' if is_bias else '.w'))
        dtype = dtype or _C.get_default_dtype()
        initializer = attr.initializer or default_initializer
        if initializer is None:
            if not _C.dtype_name(dtype).startswith(('float', 'bfloat')):
                raise TypeError(f'parameter {name} is {_C.dtype_name(dtype)} and has no initializer')
            initializer = ConstantInitializer(0.0) if is_bias else XavierInitializer()
        facts = dict(name=name, shape=list(shape), dtype=dtype, trainable=attr.trainable,
                     optimize_attr={'learning_rate': attr.learning_rate},
                     regularizer=attr.regularizer, do_model_average=attr.do_model_average,
                     need_clip=attr.need_clip, stop_gradient=stop_gradient)
        self.startup_program.global_block().create_parameter(initializer=initializer, **facts)
        return self.main_program.global_block().create_parameter(**facts)

    def get_parameter(self, name):
        param = self.main_program.global_block().var(name)
        if not isinstance(param, Parameter):
            raise ValueError(f'{name} is no parameter')
        return param

    def create_variable_for_type_inference(self, dtype, stop_gradient=False, shape=None):
        return self.main_program.current_block().create_var(
            name=_C.generate_name(self.name + '.tmp'), dtype=dtype, persistable=False,
            stop_gradient=stop_gradient)

    create_tmp_variable = create_variable_for_type_inference

    def create_variable(self, *args, **kwargs):
        return self.main_program.current_block().create_var(*args, **kwargs)

    def create_global_variable(self, persistable=False, *args, **kwargs):
        return self.main_program.global_block().create_var(*args, persistable=persistable, **kwargs)

    def create_or_get_global_variable(self, name, *args, **kwargs):
        block = self.main_program.global_block()
        if block.has_var(name):
            return block.var(name), False
        return self.create_global_variable(name=name, *args, **kwargs), True

    def set_variable_initializer(self, var, initializer):
        assert isinstance(var, Variable)
        return self.startup_program.global_block().create_var(
            name=var.name, type=var.type, dtype=var.dtype, shape=var.shape, persistable=True,
            initializer=initializer)

    def append_bias_op(self, input_var, dim_start=1, dim_end=None):
        bias_attr = self.bias_attr
        if bias_attr is False:
            return input_var
        bias = self.create_parameter(bias_attr, shape=list(input_var.shape[dim_start:dim_end]),
                                     dtype=input_var.dtype, is_bias=True)
        out = self.create_variable_for_type_inference(input_var.dtype)
        self.append_op(type='elementwise_add', inputs={'X': [input_var], 'Y': [bias]},
                       outputs={'Out': [out]}, attrs={'axis': dim_start})
        return out

    def append_activation(self, input_var):
        act = self.kwargs.get('act')
        if act is None:
            return input_var
        attrs = {'type': act} if isinstance(act, str) else dict(act)
        out = self.create_variable_for_type_inference(input_var.dtype)
        self.append_op(type=attrs.pop('type'), inputs={'X': [input_var]}, outputs={'Out': [out]},
                       attrs=attrs)
        return out

    def is_instance(self, param_name, cls):
        if not isinstance(self.kwargs.get(param_name), cls):
            raise TypeError(f'{param_name} of {self.layer_type} must be a {cls.__name__}')
