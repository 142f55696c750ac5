"""Layers by the module they have in the original; all are in paddle.fluid.layers."""
from .. import framework as _framework

Variable = _framework.Variable


def __getattr__(name):
    from .. import layers
    return getattr(layers, name)
