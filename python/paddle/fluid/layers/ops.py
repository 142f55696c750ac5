"""Layers by the module they have in the original; all are in paddle.fluid.layers."""


def __getattr__(name):
    from .. import layers
    return getattr(layers, 'scale' if name == '_scale' else name)
