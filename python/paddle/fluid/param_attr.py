"""ParamAttr: what a user may say about a parameter."""
from _trireme import Initializer, ParamAttr, WeightDecayRegularizer

__all__ = ['ParamAttr', 'WeightNormParamAttr']


def _to_attr(arg):
    """What a layer makes of its param_attr: a ParamAttr, a list of them, or False."""
    if arg is None:
        return ParamAttr()
    if isinstance(arg, (list, tuple)):
        return [_to_attr(item) for item in arg]
    if isinstance(arg, ParamAttr):
        return arg
    if isinstance(arg, str):
        return ParamAttr(name=arg)
    if isinstance(arg, Initializer):
        return ParamAttr(initializer=arg)
    if isinstance(arg, WeightDecayRegularizer):
        return ParamAttr(regularizer=arg)
    if isinstance(arg, bool):
        return ParamAttr() if arg else False
    raise TypeError(f'a {type(arg).__name__} cannot be a ParamAttr')


ParamAttr._to_attr = staticmethod(_to_attr)


class WeightNormParamAttr(ParamAttr):
    """A parameter as length times direction: NAME_v is trained, and NAME_g, its lengths along dim (None: one)."""

    def __init__(self, dim=None, name=None, initializer=None, learning_rate=1.0, regularizer=None,
                 trainable=True, do_model_average=False, need_clip=True):
        super().__init__(name, initializer, learning_rate, regularizer, trainable, do_model_average, need_clip)
        self.dim = dim
        self._weight_norm = True
