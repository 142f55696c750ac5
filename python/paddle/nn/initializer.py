"""Initializers under their 2.4 names."""
import _trireme as _C

__all__ = ['Bilinear', 'Constant', 'KaimingUniform', 'KaimingNormal', 'XavierNormal',
           'XavierUniform', 'Assign', 'Normal', 'TruncatedNormal', 'Uniform']

Bilinear = _C.BilinearInitializer
Initializer = _C.Initializer


class Constant(_C.ConstantInitializer):
    def __init__(self, value=0.0):
        super().__init__(value)


class Normal(_C.NormalInitializer):
    def __init__(self, mean=0.0, std=1.0, name=None):
        super().__init__(mean, std)


class TruncatedNormal(_C.TruncatedNormalInitializer):
    def __init__(self, mean=0.0, std=1.0, name=None):
        super().__init__(mean, std)


class Uniform(_C.UniformInitializer):
    def __init__(self, low=-1.0, high=1.0, name=None):
        super().__init__(low, high)


class XavierNormal(_C.XavierInitializer):
    def __init__(self, fan_in=None, fan_out=None, name=None):
        super().__init__(False, fan_in, fan_out)


class XavierUniform(_C.XavierInitializer):
    def __init__(self, fan_in=None, fan_out=None, name=None):
        super().__init__(True, fan_in, fan_out)


class KaimingNormal(_C.MSRAInitializer):
    def __init__(self, fan_in=None):
        super().__init__(False, fan_in)


class KaimingUniform(_C.MSRAInitializer):
    def __init__(self, fan_in=None):
        super().__init__(True, fan_in)


class Assign(_C.NumpyArrayInitializer):
    def __init__(self, value, name=None):
        super().__init__(value)
