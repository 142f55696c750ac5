"""Learning-rate schedules that live on the host: the executor writes their value before each run."""
import math

__all__ = ['LRScheduler', 'NoamDecay', 'PiecewiseDecay', 'NaturalExpDecay', 'InverseTimeDecay',
           'PolynomialDecay', 'LinearWarmup', 'ExponentialDecay', 'MultiStepDecay', 'StepDecay',
           'LambdaDecay', 'ReduceOnPlateau', 'CosineAnnealingDecay', 'MultiplicativeDecay']


class LRScheduler:
    """step() moves on by one; the object called gives the rate of now."""

    def __init__(self, learning_rate=0.1, last_epoch=-1, verbose=False):
        if not isinstance(learning_rate, (float, int)):
            raise TypeError(f'learning_rate must be a float, got {type(learning_rate).__name__}')
        if learning_rate < 0:
            raise ValueError(f'learning_rate must not be negative, got {learning_rate}')
        self.base_lr = float(learning_rate)
        self.last_lr = float(learning_rate)
        self.last_epoch = last_epoch
        self.verbose = verbose
        self.step()

    def __call__(self):
        return self.last_lr

    def get_lr(self):
        raise NotImplementedError(f'{type(self).__name__} must define get_lr')

    def step(self, epoch=None):
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        self.last_lr = self.get_lr()
        if self.verbose:
            print(f'Epoch {self.last_epoch}: {type(self).__name__} set learning rate to '
                  f'{self.last_lr}.')

    def state_keys(self):
        self.keys = ['last_epoch', 'last_lr']

    def state_dict(self):
        self.state_keys()
        return {key: getattr(self, key) for key in self.keys}

    def set_state_dict(self, state_dict):
        self.state_keys()
        for key in self.keys:
            if key not in state_dict:
                raise RuntimeError(f'the state has no {key}')
            setattr(self, key, state_dict[key])

    set_dict = set_state_dict


class NoamDecay(LRScheduler):
    """learning_rate * d_model^-0.5 * min(epoch^-0.5, epoch * warmup_steps^-1.5)"""

    def __init__(self, d_model, warmup_steps, learning_rate=1.0, last_epoch=-1, verbose=False):
        if d_model <= 0:
            raise ValueError(f'd_model must be positive, got {d_model}')
        self.d_model = d_model
        self.warmup_steps = warmup_steps
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self):
        a = 1 if self.last_epoch == 0 else self.last_epoch ** -0.5
        b = self.warmup_steps ** -1.5 * self.last_epoch
        return self.base_lr * self.d_model ** -0.5 * min(a, b)


class PiecewiseDecay(LRScheduler):
    """values[i] up to (not including) boundaries[i], then the last of values."""

    def __init__(self, boundaries, values, last_epoch=-1, verbose=False):
        if len(values) != len(boundaries) + 1:
            raise ValueError(f'{len(boundaries)} boundaries need {len(boundaries) + 1} values, '
                             f'got {len(values)}')
        self.boundaries = boundaries
        self.values = values
        super().__init__(values[0], last_epoch, verbose)

    def get_lr(self):
        for boundary, value in zip(self.boundaries, self.values):
            if self.last_epoch < boundary:
                return value
        return self.values[-1]


class NaturalExpDecay(LRScheduler):
    """learning_rate * e^(-gamma * epoch)"""

    def __init__(self, learning_rate, gamma, last_epoch=-1, verbose=False):
        self.gamma = gamma
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self):
        return self.base_lr * math.exp(-self.gamma * self.last_epoch)


class InverseTimeDecay(LRScheduler):
    """learning_rate / (1 + gamma * epoch)"""

    def __init__(self, learning_rate, gamma, last_epoch=-1, verbose=False):
        self.gamma = gamma
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self):
        return self.base_lr / (1 + self.gamma * self.last_epoch)


class ExponentialDecay(LRScheduler):
    """learning_rate * gamma^epoch"""

    def __init__(self, learning_rate, gamma, last_epoch=-1, verbose=False):
        self.gamma = gamma
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self):
        return self.base_lr * self.gamma ** self.last_epoch


class PolynomialDecay(LRScheduler):
    """(learning_rate - end_lr) * (1 - epoch / decay_steps)^power + end_lr"""

    def __init__(self, learning_rate, decay_steps, end_lr=0.0001, power=1.0, cycle=False,
                 last_epoch=-1, verbose=False):
        if not isinstance(decay_steps, int) or decay_steps <= 0:
            raise ValueError(f'decay_steps must be a positive int, got {decay_steps}')
        self.decay_steps = decay_steps
        self.end_lr = end_lr
        self.power = power
        self.cycle = cycle
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self):
        epoch, steps = self.last_epoch, self.decay_steps
        if self.cycle:
            steps *= max(1, math.ceil(epoch / self.decay_steps))
        else:
            epoch = min(epoch, steps)
        return (self.base_lr - self.end_lr) * (1 - epoch / steps) ** self.power + self.end_lr


class LinearWarmup(LRScheduler):
    """From start_lr to end_lr in warmup_steps, then learning_rate (a number or another schedule)."""

    def __init__(self, learning_rate, warmup_steps, start_lr, end_lr, last_epoch=-1, verbose=False):
        if not isinstance(learning_rate, (int, float, LRScheduler)):
            raise TypeError('learning_rate must be a float or an LRScheduler, '
                            f'got {type(learning_rate).__name__}')
        if start_lr > end_lr:
            raise ValueError(f'start_lr {start_lr} is larger than end_lr {end_lr}')
        self.learning_rate = learning_rate
        self.warmup_steps = warmup_steps
        self.start_lr = start_lr
        self.end_lr = end_lr
        super().__init__(start_lr, last_epoch, verbose)

    def get_lr(self):
        if self.last_epoch < self.warmup_steps:
            return (self.end_lr - self.start_lr) * self.last_epoch / self.warmup_steps + self.start_lr
        if isinstance(self.learning_rate, LRScheduler):
            self.learning_rate.step(self.last_epoch - self.warmup_steps)
            return self.learning_rate()
        return self.learning_rate


class MultiStepDecay(LRScheduler):
    """learning_rate times gamma at every milestone."""

    def __init__(self, learning_rate, milestones, gamma=0.1, last_epoch=-1, verbose=False):
        if not isinstance(milestones, (tuple, list)):
            raise TypeError(f'milestones must be a list, got {type(milestones).__name__}')
        if any(a >= b for a, b in zip(milestones, milestones[1:])):
            raise ValueError('milestones must be increasing')
        self.milestones = milestones
        self.gamma = gamma
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self):
        passed = sum(1 for milestone in self.milestones if self.last_epoch >= milestone)
        return self.base_lr * self.gamma ** passed


class StepDecay(LRScheduler):
    """learning_rate times gamma every step_size epochs."""

    def __init__(self, learning_rate, step_size, gamma=0.1, last_epoch=-1, verbose=False):
        if not isinstance(step_size, int):
            raise TypeError(f'step_size must be an int, got {type(step_size).__name__}')
        self.step_size = step_size
        self.gamma = gamma
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self):
        return self.base_lr * self.gamma ** (self.last_epoch // self.step_size)


class _ByFunction(LRScheduler):
    """The function of the epoch that two schedulers take."""

    def __init__(self, learning_rate, lr_lambda, last_epoch=-1, verbose=False):
        if not callable(lr_lambda):
            raise TypeError('lr_lambda must be a function')
        self.lr_lambda = lr_lambda
        super().__init__(learning_rate, last_epoch, verbose)


class LambdaDecay(_ByFunction):
    """learning_rate * lr_lambda(epoch)"""

    def get_lr(self):
        return self.base_lr * self.lr_lambda(self.last_epoch)


class MultiplicativeDecay(_ByFunction):
    """The rate before times lr_lambda(epoch)."""

    def get_lr(self):
        rate = self.base_lr
        for epoch in range(1, self.last_epoch + 1):
            rate *= self.lr_lambda(epoch)
        return rate


class CosineAnnealingDecay(LRScheduler):
    """Between learning_rate and eta_min along a cosine of half period T_max."""

    def __init__(self, learning_rate, T_max, eta_min=0, last_epoch=-1, verbose=False):
        if not isinstance(T_max, int) or T_max <= 0:
            raise ValueError(f'T_max must be a positive int, got {T_max}')
        self.T_max = T_max
        self.eta_min = float(eta_min)
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self):
        share = (1 + math.cos(math.pi * self.last_epoch / self.T_max)) / 2
        return self.eta_min + (self.base_lr - self.eta_min) * share


class ReduceOnPlateau(LRScheduler):
    """Times factor after patience epochs without a better metric: step(metric)."""

    def __init__(self, learning_rate, mode='min', factor=0.1, patience=10, threshold=1e-4,
                 threshold_mode='rel', cooldown=0, min_lr=0, epsilon=1e-8, verbose=False):
        if mode not in ('min', 'max'):
            raise ValueError(f"mode must be 'min' or 'max', got {mode!r}")
        if threshold_mode not in ('rel', 'abs'):
            raise ValueError(f"threshold_mode must be 'rel' or 'abs', got {threshold_mode!r}")
        if factor >= 1:
            raise ValueError(f'factor must be less than 1, got {factor}')
        self.mode, self.factor, self.patience, self.threshold = mode, factor, patience, threshold
        self.threshold_mode, self.cooldown = threshold_mode, cooldown
        self.min_lr, self.epsilon, self.verbose = min_lr, epsilon, verbose
        self.cooldown_counter = 0
        self.num_bad_epochs = 0
        self.best = None
        self.base_lr = self.last_lr = float(learning_rate)
        self.last_epoch = 0

    def state_keys(self):
        self.keys = ['cooldown_counter', 'best', 'num_bad_epochs', 'last_epoch', 'last_lr']

    def step(self, metrics, epoch=None):
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        metric = float(metrics)
        if self.cooldown_counter > 0:
            self.cooldown_counter -= 1
            return
        if self.best is None or self._better(metric):
            self.best = metric
            self.num_bad_epochs = 0
        else:
            self.num_bad_epochs += 1
        if self.num_bad_epochs > self.patience:
            self.cooldown_counter = self.cooldown
            self.num_bad_epochs = 0
            rate = max(self.last_lr * self.factor, self.min_lr)
            if self.last_lr - rate > self.epsilon:
                self.last_lr = rate

    def _better(self, metric):
        sign = 1 if self.mode == 'min' else -1
        margin = self.best * self.threshold if self.threshold_mode == 'rel' else self.threshold
        return sign * (self.best - metric) > (margin if self.threshold_mode == 'abs' else abs(margin))
