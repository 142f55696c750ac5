"""Initializers."""
import contextlib

from _trireme import (BilinearInitializer, ConstantInitializer, Initializer, MSRAInitializer,
                      NormalInitializer, NumpyArrayInitializer, TruncatedNormalInitializer,
                      UniformInitializer, XavierInitializer)

__all__ = ['Constant', 'Uniform', 'Normal', 'TruncatedNormal', 'Xavier', 'Bilinear', 'MSRA',
           'ConstantInitializer', 'UniformInitializer', 'NormalInitializer',
           'TruncatedNormalInitializer', 'XavierInitializer', 'BilinearInitializer',
           'MSRAInitializer', 'NumpyArrayInitializer', 'Initializer', 'force_init_on_cpu', 'init_on_cpu']

Constant = ConstantInitializer
Uniform = UniformInitializer
Normal = NormalInitializer
TruncatedNormal = TruncatedNormalInitializer
Xavier = XavierInitializer
MSRA = MSRAInitializer
Bilinear = BilinearInitializer

_on_cpu = False


def force_init_on_cpu():
    """Whether init_on_cpu is open around the call."""
    return _on_cpu


@contextlib.contextmanager
def init_on_cpu():
    """What is made inside is made on the CPU: ops carry op_device 'cpu'."""
    global _on_cpu
    from .framework import device_guard
    before, _on_cpu = _on_cpu, True
    try:
        with device_guard('cpu'):
            yield
    finally:
        _on_cpu = before
