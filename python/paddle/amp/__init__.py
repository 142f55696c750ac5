"""paddle.amp: mixed precision is made of a whole program, by paddle.static.amp."""
from ..static.amp import AutoMixedPrecisionLists, CustomOpLists  # noqa: F401

__all__ = ['auto_cast', 'GradScaler', 'decorate', 'is_float16_supported', 'is_bfloat16_supported']

_INSTEAD = ('in a static program wrap the optimizer: paddle.static.amp.decorate(optimizer), which casts the program '
            'and scales the loss in minimize')


class auto_cast:
    """Needs dynamic mode; enable=False does nothing, as it says."""

    def __init__(self, enable=True, custom_white_list=None, custom_black_list=None, level='O1', dtype='float16',
                 use_promote=True):
        if enable:
            raise NotImplementedError('amp.auto_cast needs dynamic mode: ' + _INSTEAD)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return False


class GradScaler:
    """Needs dynamic mode."""

    def __init__(self, *args, **kwargs):
        raise NotImplementedError('amp.GradScaler needs dynamic mode: ' + _INSTEAD)


def decorate(*args, **kwargs):
    """Needs dynamic mode."""
    raise NotImplementedError('amp.decorate takes dynamic models: ' + _INSTEAD)


def is_float16_supported(device=None):
    """Whether float16 is worth it: on the CPU it is computed, and slower than float32."""
    return False


def is_bfloat16_supported(device=None):
    """Whether programs may compute in bfloat16."""
    return True
