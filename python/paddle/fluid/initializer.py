"""Initializers."""
from _trireme import (BilinearInitializer, ConstantInitializer, Initializer, MSRAInitializer,
                      NormalInitializer, NumpyArrayInitializer, TruncatedNormalInitializer,
                      UniformInitializer, XavierInitializer)

__all__ = ['Constant', 'Uniform', 'Normal', 'TruncatedNormal', 'Xavier', 'Bilinear', 'MSRA',
           'ConstantInitializer', 'UniformInitializer', 'NormalInitializer',
           'TruncatedNormalInitializer', 'XavierInitializer', 'BilinearInitializer',
           'MSRAInitializer', 'NumpyArrayInitializer', 'Initializer']

Constant = ConstantInitializer
Uniform = UniformInitializer
Normal = NormalInitializer
TruncatedNormal = TruncatedNormalInitializer
Xavier = XavierInitializer
MSRA = MSRAInitializer
Bilinear = BilinearInitializer
