"""paddle.nn.utils: what is done to parameters of layers."""
from .._style import not_here

__all__ = ['weight_norm', 'remove_weight_norm', 'spectral_norm', 'parameters_to_vector', 'vector_to_parameters']

weight_norm = not_here('nn.utils.weight_norm', 'make the weight of two parameters, a direction and a length')
remove_weight_norm = not_here('nn.utils.remove_weight_norm', 'nothing has a weight norm to remove')
spectral_norm = not_here('nn.utils.spectral_norm', 'call nn.SpectralNorm on the weight in forward')
parameters_to_vector = not_here('nn.utils.parameters_to_vector', 'use paddle.concat of reshaped parameters')
vector_to_parameters = not_here('nn.utils.vector_to_parameters', 'set values with Variable.set_value')
