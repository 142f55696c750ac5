"""Functions of paddle.nn.functional that build static programs."""
from . import (activation, common, conv, distance_loss, extension, input, loss, norm, pooling,  # noqa: F401
               vision)
from .activation import *
from .common import *
from .conv import *
from .distance_loss import *
from .extension import *
from .input import *
from .loss import *
from .norm import *
from .pooling import *
from .vision import *

__all__ = [name for _part in (activation, common, conv, distance_loss, extension, input, loss, norm, pooling, vision)
           for name in _part.__all__]
