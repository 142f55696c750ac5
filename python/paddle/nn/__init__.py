"""paddle.nn: layers, functions, initializers and clips, for static programs."""
from _trireme import GradientClipByGlobalNorm as _ByGlobalNorm
from _trireme import GradientClipByNorm as ClipGradByNorm
from _trireme import GradientClipByValue as ClipGradByValue

from .._style import static_style
from ..fluid.layers import BeamSearchDecoder
from ..fluid.layers import dynamic_decode as _dynamic_decode
from . import functional, initializer, layer, utils
from .layer import loss  # noqa: F401 - paddle.nn.loss
from .layer.activation import *
from .layer.common import *
from .layer.container import *
from .layer.conv import *
from .layer.layers import *
from .layer.loss import *
from .layer.norm import *
from .layer.pooling import *
from .layer.rnn import *
from .layer.transformer import *
from .layer.vision import *

dynamic_decode = static_style(_dynamic_decode)
ClipGradByGlobalNorm = _ByGlobalNorm
