"""Layers that hold layers or parameters: Sequential, LayerList, LayerDict, ParameterList."""
import collections

import _trireme as _C

from .layers import Layer

__all__ = ['Sequential', 'LayerList', 'LayerDict', 'ParameterList']


class Sequential(Layer):
    """Layers called one after the other; each a layer, or (name, layer)."""

    def __init__(self, *layers):
        super().__init__()
        if len(layers) == 1 and isinstance(layers[0], (list, tuple)) and not (
                len(layers[0]) == 2 and isinstance(layers[0][0], str)):
            layers = layers[0]
        for index, layer in enumerate(layers):
            name, layer = layer if isinstance(layer, (list, tuple)) else (str(index), layer)
            self.add_sublayer(name, layer)

    def forward(self, input):
        for layer in self._sub_layers.values():
            input = layer(input)
        return input

    def _name_at(self, key):
        return key if isinstance(key, str) else list(self._sub_layers)[key]

    def __getitem__(self, key):
        if isinstance(key, slice):
            return type(self)(*list(self._sub_layers.items())[key])
        return self._sub_layers[self._name_at(key)]

    def __setitem__(self, key, layer):
        self.add_sublayer(self._name_at(key), layer)

    def __delitem__(self, key):
        del self._sub_layers[self._name_at(key)]

    def __len__(self):
        return len(self._sub_layers)


class _Numbered(Layer):
    """A list whose items are part of the layer that has it."""

    _items = None  # the dict that has them

    def __len__(self):
        return len(getattr(self, self._items))

    def __iter__(self):
        yield from getattr(self, self._items).values()


class LayerList(_Numbered):
    """A list of layers."""

    _items = '_sub_layers'

    def __init__(self, sublayers=None):
        super().__init__()
        self.extend(sublayers or [])

    def _index(self, index):
        count = len(self._sub_layers)
        if not -count <= index < count:
            raise IndexError(f'there are {count} layers and none at {index}')
        return index % count

    def _put(self, layers):
        self._sub_layers.clear()
        for index, layer in enumerate(layers):
            self.add_sublayer(str(index), layer)

    def __getitem__(self, index):
        if isinstance(index, slice):
            return type(self)(list(self._sub_layers.values())[index])
        return self._sub_layers[str(self._index(index))]

    def __setitem__(self, index, layer):
        self.add_sublayer(str(self._index(index)), layer)

    def __delitem__(self, index):
        layers = list(self._sub_layers.values())
        del layers[index]
        self._put(layers)

    def append(self, sublayer):
        self.add_sublayer(str(len(self)), sublayer)
        return self

    def insert(self, index, sublayer):
        layers = list(self._sub_layers.values())
        layers.insert(index, sublayer)
        self._put(layers)

    def extend(self, sublayers):
        for layer in sublayers:
            self.append(layer)
        return self


class LayerDict(Layer):
    """A dict whose layers are part of the layer that has it."""

    def __init__(self, sublayers=None):
        super().__init__()
        self.update(sublayers or {})

    def __getitem__(self, key):
        return self._sub_layers[key]

    def __setitem__(self, key, layer):
        self.add_sublayer(key, layer)

    def __delitem__(self, key):
        del self._sub_layers[key]

    def __len__(self):
        return len(self._sub_layers)

    def __iter__(self):
        return iter(self._sub_layers)

    def __contains__(self, key):
        return key in self._sub_layers

    def clear(self):
        self._sub_layers.clear()

    def pop(self, key):
        return self._sub_layers.pop(key)

    def keys(self):
        return self._sub_layers.keys()

    def items(self):
        return self._sub_layers.items()

    def values(self):
        return self._sub_layers.values()

    def update(self, sublayers):
        pairs = sublayers.items() if isinstance(sublayers, (collections.abc.Mapping, LayerDict)) else sublayers
        for key, layer in pairs:
            self.add_sublayer(key, layer)


class ParameterList(_Numbered):
    """A list of parameters."""

    _items = '_parameters'

    def __init__(self, parameters=None):
        super().__init__()
        for parameter in parameters or []:
            self.append(parameter)

    def __getitem__(self, index):
        return list(self._parameters.values())[index]

    def __setitem__(self, index, parameter):
        if not isinstance(parameter, _C.Variable):
            raise TypeError(f'a ParameterList holds parameters, not a {type(parameter).__name__}')
        self._parameters[list(self._parameters)[index]] = parameter

    def append(self, parameter):
        self.add_parameter(str(len(self)), parameter)
        return self
