"""Layers on the pixels of images."""
from .. import functional as F
from .layers import Layer

__all__ = ['PixelShuffle', 'PixelUnshuffle', 'ChannelShuffle']


class _Shuffle(Layer):
    _function = None

    def __init__(self, factor, data_format='NCHW', name=None):
        super().__init__()
        self._how = (factor, data_format, name)

    def forward(self, x):
        return type(self)._function(x, *self._how)


class PixelShuffle(_Shuffle):
    """Channels become pixels."""

    _function = F.pixel_shuffle

    def __init__(self, upscale_factor, data_format='NCHW', name=None):
        super().__init__(upscale_factor, data_format, name)


class PixelUnshuffle(_Shuffle):
    """Pixels become channels."""

    _function = F.pixel_unshuffle

    def __init__(self, downscale_factor, data_format='NCHW', name=None):
        super().__init__(downscale_factor, data_format, name)


class ChannelShuffle(_Shuffle):
    """Channels in groups, taken from one group after another."""

    _function = F.channel_shuffle

    def __init__(self, groups, data_format='NCHW', name=None):
        super().__init__(groups, data_format, name)
