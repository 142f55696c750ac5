"""Optimizers under their 2.4 names: parameters, weight_decay, and learning rates that change."""
import _trireme as _C

from .._style import static_style
from ..fluid.framework import _schedules, program_guard
from ..regularizer import L2Decay
from . import lr
from .lr import LRScheduler

__all__ = ['Optimizer', 'Adagrad', 'Adam', 'AdamW', 'Adamax', 'RMSProp', 'Adadelta', 'SGD',
           'Momentum', 'Lamb']

Optimizer = _C.Optimizer


def _common(learning_rate, parameters, weight_decay, grad_clip, name):
    """The engine's arguments, and the schedule if there is one."""
    if isinstance(weight_decay, (int, float)):
        weight_decay = L2Decay(float(weight_decay))
    if not isinstance(learning_rate, (int, float, LRScheduler)):
        raise TypeError('learning_rate must be a float or an LRScheduler, '
                        f'got {type(learning_rate).__name__}')
    schedule = learning_rate if isinstance(learning_rate, LRScheduler) else None
    rate = float(schedule() if schedule else learning_rate)
    return rate, schedule, dict(parameter_list=parameters, regularization=weight_decay,
                                grad_clip=grad_clip, name=name, _scheduled=schedule is not None)


class _Scheduled:
    """What all 2.4 optimizers add to the engine's."""

    _schedule = None

    @static_style
    def minimize(self, loss, startup_program=None, parameters=None, no_grad_set=None):
        result = self._minimize(loss, startup_program, parameters, no_grad_set)
        if self._schedule is not None:
            program = loss.block.program
            program.lr_sheduler = self._schedule
            _schedules[program._id] = self._schedule
        return result

    def _minimize(self, *args):
        return super().minimize(*args)

    def get_lr(self):
        return self._schedule() if self._schedule is not None else self._learning_rate

    def step(self):
        raise NotImplementedError('Optimizer.step() needs dynamic mode: use minimize(loss)')

    def clear_grad(self):
        raise NotImplementedError('Optimizer.clear_grad() needs dynamic mode')


class SGD(_Scheduled, _C.SGDOptimizer):
    def __init__(self, learning_rate=0.001, parameters=None, weight_decay=None, grad_clip=None,
                 name=None):
        rate, schedule, rest = _common(learning_rate, parameters, weight_decay, grad_clip, name)
        _C.SGDOptimizer.__init__(self, rate, **rest)
        self._schedule = schedule


class Momentum(_Scheduled, _C.MomentumOptimizer):
    def __init__(self, learning_rate=0.001, momentum=0.9, parameters=None, use_nesterov=False,
                 weight_decay=None, grad_clip=None, multi_precision=False, rescale_grad=1.0,
                 use_multi_tensor=False, name=None):
        if multi_precision:
            raise NotImplementedError('Momentum: multi_precision is not built yet')
        if rescale_grad != 1.0 and grad_clip is not None:
            raise NotImplementedError('Momentum: rescale_grad together with grad_clip is not built yet: '
                                      'scale the loss instead')
        self._rescale_grad = rescale_grad
        rate, schedule, rest = _common(learning_rate, parameters, weight_decay, grad_clip, name)
        _C.MomentumOptimizer.__init__(self, rate, momentum, use_nesterov=use_nesterov, **rest)
        self._schedule = schedule

    def _minimize(self, loss, startup_program, parameters, no_grad_set):
        if self._rescale_grad == 1.0:
            return super()._minimize(loss, startup_program, parameters, no_grad_set)
        startup = startup_program or _C.default_startup_program()
        with program_guard(loss.block.program, startup):
            params_grads = [(param, self._rescaled(param, grad)) for param, grad in
                            self.backward(loss, startup, parameters, no_grad_set)]
            return self.apply_gradients(params_grads), params_grads

    def _rescaled(self, param, grad):
        with param.block.program._optimized_guard([param, grad]):
            return _C.scale(grad, self._rescale_grad)


class Adagrad(_Scheduled, _C.AdagradOptimizer):
    def __init__(self, learning_rate, epsilon=1e-6, parameters=None, weight_decay=None,
                 grad_clip=None, name=None, initial_accumulator_value=0.0):
        rate, schedule, rest = _common(learning_rate, parameters, weight_decay, grad_clip, name)
        _C.AdagradOptimizer.__init__(self, rate, epsilon,
                                     initial_accumulator_value=initial_accumulator_value, **rest)
        self._schedule = schedule


class Adam(_Scheduled, _C.AdamOptimizer):
    def __init__(self, learning_rate=0.001, beta1=0.9, beta2=0.999, epsilon=1e-8, parameters=None,
                 weight_decay=None, grad_clip=None, lazy_mode=False, multi_precision=False,
                 use_multi_tensor=False, name=None):
        if multi_precision:
            raise NotImplementedError('Adam: multi_precision is not built yet')
        rate, schedule, rest = _common(learning_rate, parameters, weight_decay, grad_clip, name)
        _C.AdamOptimizer.__init__(self, rate, beta1, beta2, epsilon, lazy_mode=lazy_mode,
                                  _corrects_epsilon=True, **rest)
        self._schedule = schedule


class Adamax(_Scheduled, _C.AdamaxOptimizer):
    def __init__(self, learning_rate=0.001, beta1=0.9, beta2=0.999, epsilon=1e-8, parameters=None,
                 weight_decay=None, grad_clip=None, name=None):
        rate, schedule, rest = _common(learning_rate, parameters, weight_decay, grad_clip, name)
        _C.AdamaxOptimizer.__init__(self, rate, beta1, beta2, epsilon, **rest)
        self._schedule = schedule


class RMSProp(_Scheduled, _C.RMSPropOptimizer):
    def __init__(self, learning_rate, rho=0.95, epsilon=1e-6, momentum=0.0, centered=False,
                 parameters=None, weight_decay=None, grad_clip=None, name=None):
        rate, schedule, rest = _common(learning_rate, parameters, weight_decay, grad_clip, name)
        _C.RMSPropOptimizer.__init__(self, rate, rho, epsilon, momentum, centered, **rest)
        self._schedule = schedule


class Adadelta(_Scheduled, _C.AdadeltaOptimizer):
    def __init__(self, learning_rate=0.001, epsilon=1e-6, rho=0.95, parameters=None,
                 weight_decay=None, grad_clip=None, name=None):
        rate, schedule, rest = _common(learning_rate, parameters, weight_decay, grad_clip, name)
        _C.AdadeltaOptimizer.__init__(self, rate, epsilon, rho, **rest)
        self._schedule = schedule


class Lamb(_Scheduled, _C.LambOptimizer):
    def __init__(self, learning_rate=0.001, lamb_weight_decay=0.01, beta1=0.9, beta2=0.999,
                 epsilon=1e-6, parameters=None, grad_clip=None, exclude_from_weight_decay_fn=None,
                 name=None):
        rate, schedule, rest = _common(learning_rate, parameters, None, grad_clip, name)
        _C.LambOptimizer.__init__(self, rate, lamb_weight_decay, beta1, beta2, epsilon,
                                  exclude_from_weight_decay_fn=exclude_from_weight_decay_fn, **rest)
        self._schedule = schedule


class AdamW(_Scheduled, _C.AdamOptimizer):
    """Adam, before whose every step parameters shrink by learning rate * weight_decay.

    apply_decay_param_fun(name) says which parameters do; None: all of them.
    """

    def __init__(self, learning_rate=0.001, beta1=0.9, beta2=0.999, epsilon=1e-8, parameters=None,
                 weight_decay=0.01, lr_ratio=None, apply_decay_param_fun=None, grad_clip=None,
                 lazy_mode=False, multi_precision=False, name=None):
        if lr_ratio is not None or multi_precision:
            raise NotImplementedError('AdamW: lr_ratio and multi_precision are not built in Trireme: give '
                                      'ParamAttr(learning_rate=...) for rates that differ')
        if not isinstance(weight_decay, (int, float)):
            raise TypeError(f'AdamW: weight_decay must be a number, got {type(weight_decay).__name__}')
        rate, schedule, rest = _common(learning_rate, parameters, None, grad_clip, name)
        asked = apply_decay_param_fun
        _C.AdamOptimizer.__init__(self, rate, beta1, beta2, epsilon, lazy_mode=lazy_mode, _corrects_epsilon=True,
                                  _decoupled_decay=float(weight_decay),
                                  _decays=None if asked is None else lambda param: asked(param.name), **rest)
        self._schedule = schedule


class LBFGS:
    """Needs dynamic mode: it asks for the loss many times within one step."""

    def __init__(self, *args, **kwargs):
        raise NotImplementedError('optimizer.LBFGS needs dynamic mode: use Adam, or scipy.optimize on values that '
                                  'Executor.run gives')
