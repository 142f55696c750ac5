"""Gradient clips."""
import warnings

import _trireme as _C
from _trireme import (GradientClipBase, GradientClipByGlobalNorm, GradientClipByNorm,
                      GradientClipByValue, append_gradient_clip_ops)

from .framework import Variable

__all__ = ['append_gradient_clip_ops', 'set_gradient_clip', 'ErrorClipByValue', 'GradientClipByValue', 'GradientClipByNorm',
           'GradientClipByGlobalNorm']


class BaseErrorClipAttr:
    pass


class ErrorClipByValue(BaseErrorClipAttr):
    """Clips the gradient of one variable: var.error_clip = ErrorClipByValue(max=1.0)."""

    def __init__(self, max, min=None):
        self.max = float(max)
        self.min = -self.max if min is None else float(min)

    def __str__(self):
        return f'ErrorClipByValue(max={self.max}, min={self.min})'


def error_clip_callback(block, context):
    """For append_backward's callbacks: appends the clips of variables that have an error_clip."""
    _C.error_clip_callback(block, block.ops[-1])


def set_gradient_clip(clip, param_list=None, program=None):
    """The old way: optimizers without a grad_clip of their own use this clip."""
    warnings.warn('set_gradient_clip may not be used together with grad_clip of an optimizer; '
                  'passing grad_clip to the optimizer is clearer')
    if not isinstance(clip, GradientClipBase):
        raise TypeError(f"'clip' should be a GradientClip, got {type(clip).__name__}")
    names = [item.name if isinstance(item, Variable) else item for item in param_list or []]
    _C.set_gradient_clip(clip, names, program)
