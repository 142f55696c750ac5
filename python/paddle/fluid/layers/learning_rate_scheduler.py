"""Learning rates computed by the program itself."""
from _trireme import (append_LARS, cosine_decay, exponential_decay, inverse_time_decay, linear_lr_warmup,
                      natural_exp_decay, noam_decay, piecewise_decay, polynomial_decay,
                      _decay_step_counter)

__all__ = ['exponential_decay', 'natural_exp_decay', 'inverse_time_decay', 'polynomial_decay',
           'piecewise_decay', 'noam_decay', 'cosine_decay', 'linear_lr_warmup',
           'append_LARS', '_decay_step_counter']
