"""How layers append one op and take its one result."""
import _trireme as _C


def one(op, inputs, attrs=None, name=None, layer=None, act=None, out='Out'):
    """The first variable of the slot `out` of a new op; `layer` names it where `name` does not."""
    return _C.apply(op, inputs, attrs or {}, name, layer or op, act)[out][0]
