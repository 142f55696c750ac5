"""paddle.nn: initializers, clips and functions for static programs; layers need dynamic mode."""
from _trireme import GradientClipByGlobalNorm as ClipGradByGlobalNorm
from _trireme import GradientClipByNorm as ClipGradByNorm
from _trireme import GradientClipByValue as ClipGradByValue

from . import functional, initializer


def __getattr__(name):
    if name.startswith('__'):
        raise AttributeError(name)
    raise NotImplementedError(f'paddle.nn.{name} needs dynamic mode, which Trireme does not have: '
                              'use paddle.static.nn and paddle.nn.functional')
