"""Layer: a part of a net that has parameters, other layers, and a forward that builds ops."""
import collections
import re
import warnings

import numpy

import _trireme as _C

from ..._style import static_style
from ...fluid.layer_helper import LayerHelper
from ...fluid.param_attr import ParamAttr
from ..initializer import default_initializer_of

__all__ = ['Layer']


def _snake(name):
    """BatchNorm2D -> batch_norm2d"""
    return re.sub(r'(?<!^)(?=[A-Z][a-z])|(?<=[a-z])(?=[A-Z])', '_', name).lower()


class _Hook:
    """What registering a hook returns; remove() takes it away."""

    def __init__(self, hooks, key):
        self._hooks, self._key = hooks, key

    def remove(self):
        self._hooks.pop(self._key, None)


class Layer:
    """Derive from it, make parameters and other layers in __init__, and define forward."""

    def __init__(self, name_scope=None, dtype='float32'):
        state = self.__dict__
        for kind in ('_parameters', '_sub_layers', '_buffers', '_forward_pre_hooks', '_forward_post_hooks'):
            state[kind] = collections.OrderedDict()
        self.training = True
        self._unsaved_buffers = set()
        self._full_name = _C.generate_name(name_scope or _snake(type(self).__name__))
        self._dtype = dtype

    # Building.

    def forward(self, *inputs, **kwargs):
        raise NotImplementedError(f'{type(self).__name__} does not define forward')

    def __call__(self, *inputs, **kwargs):
        for hook in list(self._forward_pre_hooks.values()):
            changed = hook(self, inputs)
            if changed is not None:
                inputs = changed if isinstance(changed, tuple) else (changed,)
        outputs = self.forward(*inputs, **kwargs)
        for hook in list(self._forward_post_hooks.values()):
            changed = hook(self, inputs, outputs)
            outputs = outputs if changed is None else changed
        return outputs

    def register_forward_pre_hook(self, hook):
        """hook(layer, inputs) is called before forward; what it returns takes the place of inputs."""
        return self._register(self._forward_pre_hooks, hook)

    def register_forward_post_hook(self, hook):
        """hook(layer, inputs, outputs) is called after forward; what it returns takes the place of outputs."""
        return self._register(self._forward_post_hooks, hook)

    @staticmethod
    def _register(hooks, hook):
        key = object()
        hooks[key] = hook
        return _Hook(hooks, key)

    @static_style
    def create_parameter(self, shape, attr=None, dtype=None, is_bias=False, default_initializer=None):
        """A parameter named after this layer; None where attr is False."""
        if attr is False:
            return None
        attr = ParamAttr._to_attr(attr)
        dtype = dtype or self._dtype
        if default_initializer is None:
            default_initializer = default_initializer_of(is_bias)
        name = attr.name or _C.generate_name(self._full_name + ('.b' if is_bias else '.w'))
        return LayerHelper('layer', name=self._full_name).create_parameter(
            _named(attr, name), shape, dtype, is_bias, default_initializer)

    def create_variable(self, name=None, persistable=None, dtype=None):
        name = name or _C.generate_name(self._full_name + '._generated_var')
        return _C.default_main_program().current_block().create_var(
            name=name, persistable=bool(persistable), dtype=dtype or self._dtype)

    create_tensor = create_variable

    def full_name(self):
        return self._full_name

    def extra_repr(self):
        return ''

    # What it has.

    def add_parameter(self, name, parameter):
        if parameter is not None and not isinstance(parameter, _C.Variable):
            raise TypeError(f'{name} must be a parameter, got {type(parameter).__name__}')
        self._parameters[name] = parameter
        return parameter

    def add_sublayer(self, name, sublayer):
        if sublayer is not None and not isinstance(sublayer, Layer):
            raise TypeError(f'{name} must be a Layer, got {type(sublayer).__name__}')
        self._sub_layers[name] = sublayer
        return sublayer

    def register_buffer(self, name, tensor, persistable=True):
        """A variable that is no parameter but part of the state."""
        self._buffers[name] = tensor
        if persistable:
            self._unsaved_buffers.discard(name)
        else:
            self._unsaved_buffers.add(name)

    def named_sublayers(self, prefix='', include_self=False, layers_set=None):
        """(path, layer) of every layer inside, each once."""
        seen = set() if layers_set is None else layers_set
        if include_self and self not in seen:
            seen.add(self)
            yield prefix, self
        for name, layer in self._sub_layers.items():
            if layer is None or layer in seen:
                continue
            yield from layer.named_sublayers(prefix + ('.' if prefix else '') + name, True, seen)

    def sublayers(self, include_self=False):
        return [layer for _, layer in self.named_sublayers(include_self=include_self)]

    def named_children(self):
        seen = set()
        for name, layer in self._sub_layers.items():
            if layer is not None and layer not in seen:
                seen.add(layer)
                yield name, layer

    def children(self):
        return (layer for _, layer in self.named_children())

    def _named_members(self, kind, prefix, include_sublayers):
        seen = set()
        inside = self.named_sublayers(prefix, True) if include_sublayers else [(prefix, self)]
        for path, layer in inside:
            for name, member in getattr(layer, kind).items():
                if member is not None and member.name not in seen:
                    seen.add(member.name)
                    yield path + ('.' if path else '') + name, member

    def named_parameters(self, prefix='', include_sublayers=True):
        """(path, parameter) of every parameter, each once."""
        return self._named_members('_parameters', prefix, include_sublayers)

    def parameters(self, include_sublayers=True):
        return [parameter for _, parameter in self.named_parameters(include_sublayers=include_sublayers)]

    def named_buffers(self, prefix='', include_sublayers=True):
        return self._named_members('_buffers', prefix, include_sublayers)

    def buffers(self, include_sublayers=True):
        return [buffer for _, buffer in self.named_buffers(include_sublayers=include_sublayers)]

    def apply(self, fn):
        """Calls fn on every layer inside, then on this one."""
        for layer in self.children():
            layer.apply(fn)
        fn(self)
        return self

    def train(self):
        """What is built from now on is for training."""
        for layer in self.sublayers(include_self=True):
            layer.training = True

    def eval(self):
        """What is built from now on is for testing."""
        for layer in self.sublayers(include_self=True):
            layer.training = False

    # State.

    def state_dict(self, destination=None, include_sublayers=True, structured_name_prefix='', use_hook=True):
        """path -> variable of all parameters and saved buffers; values: Program.state_dict."""
        found = collections.OrderedDict() if destination is None else destination
        for kind in ('_parameters', '_buffers'):
            for name, member in getattr(self, kind).items():
                if member is not None and not (kind == '_buffers' and name in self._unsaved_buffers):
                    found[structured_name_prefix + name] = member
        if include_sublayers:
            for name, layer in self._sub_layers.items():
                if layer is not None:
                    layer.state_dict(found, True, structured_name_prefix + name + '.')
        return found

    to_static_state_dict = state_dict

    def set_state_dict(self, state_dict, use_structured_name=True):
        """Writes values into the scope: (keys that were not given, keys that nobody has)."""
        own = self.state_dict()
        keys = {key if use_structured_name else var.name: var for key, var in own.items()}
        missing = [key for key in keys if key not in state_dict]
        unexpected = [key for key in state_dict if key not in keys and key != 'StructuredToParameterName@@']
        for key, var in keys.items():
            if key not in state_dict:
                warnings.warn(f'{key} is not loaded: the state does not have it')
                continue
            value = state_dict[key]
            var.set_value(value.get_value() if isinstance(value, _C.Variable) else numpy.asarray(value))
        return missing, unexpected

    set_dict = load_dict = set_state_dict

    def to(self, device=None, dtype=None, blocking=None):
        raise NotImplementedError('Layer.to moves values, and a static program has none until it runs: the Executor\'s '
                                  'place says where, and casts are made by paddle.cast or static.amp')

    def astype(self, dtype=None):
        return self.to(dtype=dtype)

    float = float16 = bfloat16 = astype

    def backward(self, *inputs):
        raise NotImplementedError('Layer.backward needs dynamic mode: use static.append_backward or an optimizer\'s '
                                  'minimize')

    def clear_gradients(self, set_to_zero=True):
        raise NotImplementedError('Layer.clear_gradients needs dynamic mode: in a static program every run has '
                                  'gradients of its own')

    # Attributes: parameters, layers and buffers keep a list of their kind.

    def __setattr__(self, name, value):
        state = self.__dict__
        if isinstance(value, Layer) or isinstance(value, _C.Variable) and value.is_parameter:
            if '_parameters' not in state:
                raise RuntimeError(f'{type(self).__name__}: call super().__init__() before anything is assigned')
            self._forget(name)
            state['_sub_layers' if isinstance(value, Layer) else '_parameters'][name] = value
            return
        for kind in ('_buffers', '_parameters', '_sub_layers'):
            if name in state.get(kind, ()):
                if value is None or kind == '_buffers':
                    state[kind][name] = value
                    return
                self._forget(name)
        object.__setattr__(self, name, value)

    def __getattr__(self, name):
        for kind in ('_parameters', '_sub_layers', '_buffers'):
            found = self.__dict__.get(kind, {})
            if name in found:
                return found[name]
        raise AttributeError(f'{type(self).__name__} has no {name}')

    def __delattr__(self, name):
        if not self._forget(name):
            raise AttributeError(f'{type(self).__name__} has no {name}')

    def _forget(self, name):
        state = self.__dict__
        places = [state] + [state[kind] for kind in ('_parameters', '_sub_layers', '_buffers') if kind in state]
        return [place.pop(name) for place in places if name in place]

    def __dir__(self):
        own = [name for kind in ('_parameters', '_sub_layers', '_buffers') for name in self.__dict__.get(kind, ())]
        return sorted(set(object.__dir__(self)) | set(own))

    def __repr__(self):
        inside = ['  (%s): %s' % (name, repr(layer).replace('\n', '\n  ')) for name, layer in self._sub_layers.items()]
        head = type(self).__name__ + '(' + self.extra_repr()
        return head + ('\n' + '\n'.join(inside) + '\n' if inside else '') + ')'


def _named(attr, name):
    """The attribute with a name; the user's own object is left as it is."""
    if attr.name == name:
        return attr
    return ParamAttr(name=name, initializer=attr.initializer, learning_rate=attr.learning_rate,
                     regularizer=attr.regularizer, trainable=attr.trainable, do_model_average=attr.do_model_average,
                     need_clip=attr.need_clip)
