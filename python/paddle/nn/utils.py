"""paddle.nn.utils: what is done to parameters of layers."""
import _trireme as _C

from .. import tensor as _tensor
from .._style import not_here, one, static_style

__all__ = ['weight_norm', 'remove_weight_norm', 'spectral_norm', 'parameters_to_vector', 'vector_to_parameters']


def _length(weight, dim):
    """The length of each slice along dim, dimensions of extent 1 elsewhere; dim None: of the whole weight."""
    axes = [i for i in range(len(weight.shape)) if i != dim]
    return one('sqrt', {'X': _C.reduce('reduce_sum', one('square', {'X': weight}), axes, True, None)})


class _WeightNorm:
    """Before each forward: weight = g * v / |v|, made of the two parameters that are trained."""

    def __init__(self, name, dim):
        self.name, self.dim = name, dim

    @static_style
    def weight(self, layer):
        v, g = getattr(layer, self.name + '_v'), getattr(layer, self.name + '_g')
        shape = [1] * len(v.shape)
        if self.dim is not None:
            shape[self.dim] = v.shape[self.dim]
        return _tensor.multiply(v, _tensor.divide(_tensor.reshape(g, shape), _length(v, self.dim)))

    def __call__(self, layer, inputs):
        layer.__dict__[self.name] = self.weight(layer)


def weight_norm(layer, name='weight', dim=0):
    """Trains a weight as direction NAME_v and length NAME_g, of each slice along dim (None: of all). Returns the layer."""
    weight = layer._parameters.get(name)
    if weight is None:
        raise ValueError(f'weight_norm: {type(layer).__name__} has no parameter {name}, or has a weight norm already')
    if dim is not None and not -len(weight.shape) <= dim < len(weight.shape):
        raise ValueError(f'weight_norm: dim is {dim}, but {name} has {len(weight.shape)} dimensions')
    dim = None if dim is None else dim % len(weight.shape)
    from ..static import default_startup_program, program_guard
    del layer._parameters[name]
    v = layer.create_parameter(list(weight.shape), dtype=_C.dtype_name(weight.dtype))
    setattr(layer, name + '_v', v)
    g = layer.create_parameter([1 if dim is None else weight.shape[dim]], dtype=_C.dtype_name(weight.dtype))
    setattr(layer, name + '_g', g)
    startup = default_startup_program()
    with program_guard(startup, startup):  # both begin as the weight, which is made there already
        first = startup.global_block().var(weight.name)
        _C.assign(first, startup.global_block().var(v.name))
        _C.assign(_C.reshape(_length(first, dim), [-1]), startup.global_block().var(g.name))
    layer.register_forward_pre_hook(_WeightNorm(name, dim))
    return layer


remove_weight_norm = not_here('nn.utils.remove_weight_norm', 'a static program is built once: build it without')
spectral_norm = not_here('nn.utils.spectral_norm', 'call nn.SpectralNorm on the weight in forward')
parameters_to_vector = not_here('nn.utils.parameters_to_vector', 'use paddle.concat of reshaped parameters')
vector_to_parameters = not_here('nn.utils.vector_to_parameters', 'set values with Variable.set_value')
