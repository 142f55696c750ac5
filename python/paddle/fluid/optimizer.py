"""Optimizers: minimize(loss) appends the ops that update the parameters."""
import contextlib

import _trireme as _C
from _trireme import (AdadeltaOptimizer, AdagradOptimizer, AdamaxOptimizer, AdamOptimizer,
                      DecayedAdagradOptimizer, DpsgdOptimizer, FtrlOptimizer,
                      GradientMergeOptimizer, LambOptimizer,
                      LarsMomentumOptimizer, LookaheadOptimizer, MomentumOptimizer, Optimizer,
                      PipelineOptimizer, RecomputeOptimizer, RMSPropOptimizer, SGDOptimizer)

from . import regularizer
from .compiler import not_built

__all__ = ['Optimizer', 'SGD', 'Momentum', 'Adagrad', 'Adam', 'Adamax', 'Dpsgd', 'DecayedAdagrad', 'Ftrl',
           'SGDOptimizer', 'MomentumOptimizer', 'AdagradOptimizer', 'AdamOptimizer',
           'AdamaxOptimizer', 'DpsgdOptimizer', 'DecayedAdagradOptimizer', 'RMSPropOptimizer',
           'FtrlOptimizer', 'Adadelta', 'AdadeltaOptimizer', 'ModelAverage', 'LarsMomentum',
           'LarsMomentumOptimizer', 'LambOptimizer', 'ExponentialMovingAverage',
           'PipelineOptimizer', 'LookaheadOptimizer', 'RecomputeOptimizer',
           'DGCMomentumOptimizer', 'GradientMergeOptimizer']


append_regularization_ops = regularizer.append_regularization_ops  # where programs look for it


class _Swapped:
    """apply() puts averages in place of the parameters, restore() takes them out again."""

    @contextlib.contextmanager
    def apply(self, executor, need_restore=True):
        with contextlib.ExitStack() as afterwards:
            executor.run(self.apply_program)
            if need_restore:
                afterwards.callback(self.restore, executor)
            yield

    def restore(self, executor):
        executor.run(self.restore_program)


class ModelAverage(_Swapped, _C.ModelAverage):
    """Averages parameters over a window of updates; made after minimize()."""


class ExponentialMovingAverage(_Swapped, _C.ExponentialMovingAverage):
    """ema = decay * ema + (1 - decay) * parameter; update() appends that to the program."""


def _load(self, state_dict):
    raise NotImplementedError('RecomputeOptimizer.load: an optimizer\'s state is in the scope; use fluid.load')


RecomputeOptimizer.load = _load
SGD = SGDOptimizer
Momentum = MomentumOptimizer
Adagrad = AdagradOptimizer
Adam = AdamOptimizer
Adamax = AdamaxOptimizer
Dpsgd = DpsgdOptimizer
DecayedAdagrad = DecayedAdagradOptimizer
Ftrl = FtrlOptimizer
Adadelta = AdadeltaOptimizer
RMSProp = RMSPropOptimizer
LarsMomentum = LarsMomentumOptimizer
Lamb = LambOptimizer

DGCMomentumOptimizer = not_built('optimizer.DGCMomentumOptimizer', 'it sends the largest gradients only, between GPUs of '
                                 'several processes; use Momentum, which trains to the same place with all of them')
