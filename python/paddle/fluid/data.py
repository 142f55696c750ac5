"""fluid.data: a data variable that is checked when it is fed."""
from _trireme import checked_data as _checked_data

__all__ = ['data']


def data(name, shape, dtype='float32', lod_level=0):
    """Named, with the batch dimension in its shape; None or -1 where a size is unknown."""
    return _checked_data(name, shape, dtype, lod_level)
