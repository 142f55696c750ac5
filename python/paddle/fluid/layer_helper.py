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
    _block = property(lambda self: self.main_program.current_block())
    _globals = property(lambda self: self.main_program.global_block())
    param_attr = property(lambda self: ParamAttr._to_attr(self.kwargs.get('param_attr')))
    bias_attr = property(lambda self: ParamAttr._to_attr(self.kwargs.get('bias_attr')))

    def append_op(self, *args, **kwargs):
        return self._block.append_op(*args, **kwargs)

    def multiple_input(self, input_param_name='input'):
        given = self.kwargs.get(input_param_name, ())
        return list(given) if isinstance(given, (list, tuple)) else [given]

    def input(self, input_param_name='input'):
        given = self.multiple_input(input_param_name)
        if len(given) == 1:
            return given[0]
        raise ValueError(f'{self.layer_type} takes one input, got {len(given)}')

    def multiple_param_attr(self, length):
        attrs = self.param_attr
        if not isinstance(attrs, list):
            attrs = [attrs]
        if len(attrs) not in (1, length):
            raise ValueError(f'param_attr has {len(attrs)} entries for {length} inputs')
        return attrs * length if len(attrs) == 1 else attrs

    def iter_inputs_and_params(self, input_param_name='input'):
        given = self.multiple_input(input_param_name)
        return zip(given, self.multiple_param_attr(len(given)))

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
        return self._globals.create_parameter(**facts)

    def get_parameter(self, name):
        found = self._globals.var(name)
        if isinstance(found, Parameter):
            return found
        raise ValueError(f'{name} is a variable, but no parameter')

    def create_variable_for_type_inference(self, dtype, stop_gradient=False, shape=None):
        return self._block.create_var(name=_C.generate_name(self.name + '.tmp'), dtype=dtype,
                                      persistable=False, stop_gradient=stop_gradient)

    create_tmp_variable = create_variable_for_type_inference

    def create_global_variable(self, persistable=False, *args, **kwargs):
        """Found from every block of the main program."""
        kwargs['persistable'] = persistable
        return self._globals.create_var(*args, **kwargs)

    def create_or_get_global_variable(self, name, *args, **kwargs):
        """(the variable, whether it was made just now)"""
        is_new = not self._globals.has_var(name)
        found = self.create_global_variable(*args, name=name, **kwargs) if is_new \
            else self._globals.var(name)
        return found, is_new

    def create_variable(self, *args, **kwargs):
        return self._block.create_var(*args, **kwargs)

    def set_variable_initializer(self, var, initializer):
        """Its twin in the startup program, where the initializer fills it."""
        assert isinstance(var, Variable), f'an initializer fills variables, not a {type(var).__name__}'
        same = {fact: getattr(var, fact) for fact in ('name', 'type', 'dtype', 'shape')}
        return self.startup_program.global_block().create_var(initializer=initializer, persistable=True,
                                                              **same)

    def append_bias_op(self, input_var, dim_start=1, dim_end=None):
        bias_attr = self.bias_attr
        if bias_attr is False:
            return input_var
        bias = self.create_parameter(bias_attr, shape=list(input_var.shape[dim_start:dim_end]),
                                     dtype=input_var.dtype, is_bias=True)
        return self._output_of('elementwise_add', {'X': [input_var], 'Y': [bias]}, {'axis': dim_start})

    def append_activation(self, input_var):
        act = self.kwargs.get('act')
        if act is None:
            return input_var
        attrs = {'type': act} if isinstance(act, str) else dict(act)
        return self._output_of(attrs.pop('type'), {'X': [input_var]}, attrs)

    def _output_of(self, op, inputs, attrs):
        """Out of a new op; it has the type of X."""
        out = self.create_variable_for_type_inference(inputs['X'][0].dtype)
        self.append_op(type=op, inputs=inputs, outputs={'Out': [out]}, attrs=attrs)
        return out

    def is_instance(self, param_name, cls):
        if not isinstance(self.kwargs.get(param_name), cls):
            raise TypeError(f'{param_name} of {self.layer_type} must be a {cls.__name__}')
