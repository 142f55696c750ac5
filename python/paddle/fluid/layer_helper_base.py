"""LayerHelperBase: a LayerHelper by name and type alone."""
from .layer_helper import LayerHelper

__all__ = ['LayerHelperBase']


class LayerHelperBase(LayerHelper):
    def __init__(self, name, layer_type):
        super().__init__(layer_type, name=name)
