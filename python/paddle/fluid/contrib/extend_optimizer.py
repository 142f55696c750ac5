"""Optimizers with decoupled weight decay: parameters shrink by themselves, not through their gradients."""
from .. import layers
from ..framework import Variable, default_main_program, name_scope
from ..optimizer import Optimizer

__all__ = ['extend_with_decoupled_weight_decay']


class DecoupledWeightDecay:
    """What a class made by extend_with_decoupled_weight_decay does before its optimizer."""

    def __init__(self, weight_decay=0.0, apply_decay_param_fun=None, **kwargs):
        if not isinstance(weight_decay, (float, int, Variable)):
            raise TypeError(f'weight_decay must be a float or a Variable, got {type(weight_decay).__name__}')
        self._params_name = set()
        self._apply_decay_param_fun = apply_decay_param_fun
        self._coeff = weight_decay
        super().__init__(**kwargs)

    def minimize(self, loss, startup_program=None, parameter_list=None, no_grad_set=None):
        """Each parameter becomes parameter * (1 - weight_decay), then the optimizer updates it."""
        pairs = self.backward(loss, startup_program=startup_program, parameter_list=parameter_list,
                              no_grad_set=no_grad_set)
        scaled = []
        for param, grad in pairs:
            wanted = self._apply_decay_param_fun is None or self._apply_decay_param_fun(param.name)
            if not wanted or (isinstance(self._coeff, (int, float)) and self._coeff == 0.0):
                continue
            with default_main_program()._optimized_guard([param, grad]), name_scope('weight_decay'):
                scaled.append((param, grad, param * self._coeff))
        for param, grad, less in scaled:
            with default_main_program()._optimized_guard([param, grad]), name_scope('weight_decay'):
                layers.assign(layers.elementwise_sub(param, less), output=param)
        return self.apply_optimize(loss, startup_program, pairs), pairs


def extend_with_decoupled_weight_decay(base_optimizer):
    """A class like base_optimizer that takes weight_decay, and apply_decay_param_fun(name) to choose parameters."""
    if not isinstance(base_optimizer, type) or not issubclass(base_optimizer, Optimizer):
        raise TypeError('extend_with_decoupled_weight_decay takes a class of optimizers, '
                        f'got {base_optimizer!r}')

    class OptimizerWithDecoupledWeightDecay(DecoupledWeightDecay, base_optimizer):
        """The optimizer, with decoupled weight decay."""

        def __init__(self, weight_decay, apply_decay_param_fun=None, **kwargs):
            super().__init__(weight_decay, apply_decay_param_fun, **kwargs)

    return OptimizerWithDecoupledWeightDecay
