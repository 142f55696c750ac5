"""Learning-rate schedules that live on the host: the executor writes their value before each run."""
import math
import warnings

import numpy

__all__ = ['LRScheduler', 'NoamDecay', 'PiecewiseDecay', 'NaturalExpDecay', 'InverseTimeDecay',
           'PolynomialDecay', 'LinearWarmup', 'ExponentialDecay', 'MultiStepDecay', 'StepDecay',
           'LambdaDecay', 'ReduceOnPlateau', 'CosineAnnealingDecay', 'MultiplicativeDecay', 'LinearLR',
           'CosineAnnealingWarmRestarts', 'CyclicLR', 'OneCycleLR']


def _number(value, name):
    """value as a float; texts and the like are refused."""
    if not isinstance(value, (int, float)):
        raise TypeError(f'{name} must be a number, got {type(value).__name__}')
    return float(value)


def _whole(value, name):
    """value, if it counts something."""
    if not isinstance(value, int):
        raise TypeError(f'{name} must be an int, got {type(value).__name__}')
    if value < 1:
        raise ValueError(f'{name} must be at least 1, got {value}')
    return value


def _shrinking(factor, name):
    if factor >= 1:
        raise ValueError(f'{name} must be less than 1, or the rate would not fall; got {factor}')
    return factor


class LRScheduler:
    """step() moves on by one; the object called gives the rate of now.

    A schedule of one's own defines get_lr: the rate at self.last_epoch, from self.base_lr.
    """

    def __init__(self, learning_rate=0.1, last_epoch=-1, verbose=False):
        self._begin(learning_rate, last_epoch, verbose)
        if self.base_lr < 0:
            raise ValueError(f'learning_rate must not be negative, got {learning_rate}')
        self.step()

    def _begin(self, rate, epoch, verbose):
        self.base_lr = self.last_lr = _number(rate, 'learning_rate')
        self.last_epoch = epoch
        self.verbose = verbose

    def __call__(self):
        return self.last_lr

    def get_lr(self):
        raise NotImplementedError(f'{type(self).__name__} does not say what its rate is: define get_lr')

    def step(self, epoch=None):
        self._go_to(epoch)
        self._take(self.get_lr())

    def _go_to(self, epoch):
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch

    def _take(self, rate):
        self.last_lr = rate
        if self.verbose:
            print(f'{type(self).__name__}: the rate is {rate} from epoch {self.last_epoch} on')

    def state_keys(self):
        """Sets keys: the attributes that a checkpoint holds."""
        self.keys = ['last_epoch', 'last_lr']

    def state_dict(self):
        """What set_state_dict needs to go on from here; a schedule inside has a dict of its own."""
        self.state_keys()
        values = {key: getattr(self, key) for key in self.keys}
        return {key: value.state_dict() if isinstance(value, LRScheduler) else value
                for key, value in values.items()}

    def set_state_dict(self, state_dict):
        self.state_keys()
        missing = [key for key in self.keys if key not in state_dict]
        if missing:
            raise RuntimeError(f'the state of a {type(self).__name__} needs {", ".join(missing)}, and '
                               f'this one has only {", ".join(map(str, state_dict)) or "nothing"}')
        inside = [key for key in self.keys if isinstance(getattr(self, key), LRScheduler)]
        for key in inside:  # first: a state that it refuses changes nothing here either
            getattr(self, key).set_state_dict(state_dict[key])
        for key in set(self.keys).difference(inside):
            setattr(self, key, state_dict[key])
        unused = [str(key) for key in state_dict if key not in self.keys]
        if unused:
            warnings.warn(f'{type(self).__name__} has no use for {", ".join(unused)}: was the state '
                          'saved by another schedule?')

    set_dict = set_state_dict


class NoamDecay(LRScheduler):
    """learning_rate * d_model^-0.5 * min(epoch^-0.5, epoch * warmup_steps^-1.5)"""

    def __init__(self, d_model, warmup_steps, learning_rate=1.0, last_epoch=-1, verbose=False):
        if d_model <= 0:
            raise ValueError(f'd_model is the width of a model, and {d_model} is none')
        self.d_model, self.warmup_steps = d_model, warmup_steps
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self):
        falling = (self.last_epoch or 1) ** -0.5
        rising = self.last_epoch * self.warmup_steps ** -1.5
        return self.base_lr * self.d_model ** -0.5 * min(falling, rising)


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
        ahead = (value for end, value in zip(self.boundaries, self.values) if self.last_epoch < end)
        return next(ahead, self.values[-1])


class _WithGamma(LRScheduler):
    """Schedules of one constant."""

    def __init__(self, learning_rate, gamma, last_epoch=-1, verbose=False):
        self.gamma = gamma
        super().__init__(learning_rate, last_epoch, verbose)


class NaturalExpDecay(_WithGamma):
    """learning_rate * e^(-gamma * epoch)"""

    def get_lr(self):
        return math.exp(-self.gamma * self.last_epoch) * self.base_lr


class InverseTimeDecay(_WithGamma):
    """learning_rate / (1 + gamma * epoch)"""

    def get_lr(self):
        grown = 1 + self.last_epoch * self.gamma
        return self.base_lr / grown


class ExponentialDecay(_WithGamma):
    """learning_rate * gamma^epoch"""

    def get_lr(self):
        return pow(self.gamma, self.last_epoch) * self.base_lr


class PolynomialDecay(LRScheduler):
    """(learning_rate - end_lr) * (1 - epoch / decay_steps)^power + end_lr

    After decay_steps the rate stays at end_lr; with cycle, decay_steps is doubled, tripled and so on.
    """

    def __init__(self, learning_rate, decay_steps, end_lr=0.0001, power=1.0, cycle=False,
                 last_epoch=-1, verbose=False):
        self.decay_steps = _whole(decay_steps, 'decay_steps')
        self.end_lr, self.power, self.cycle = end_lr, power, cycle
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self):
        epoch, steps = self.last_epoch, self.decay_steps
        if self.cycle:
            steps *= max(1, math.ceil(epoch / steps))
        left = max(0, 1 - epoch / steps)
        return self.end_lr + (self.base_lr - self.end_lr) * left ** self.power


class LinearWarmup(LRScheduler):
    """From start_lr to end_lr in warmup_steps, then learning_rate (a number or another schedule)."""

    def __init__(self, learning_rate, warmup_steps, start_lr, end_lr, last_epoch=-1, verbose=False):
        if not isinstance(learning_rate, (int, float, LRScheduler)):
            raise TypeError('learning_rate must be a float or an LRScheduler, '
                            f'got {type(learning_rate).__name__}')
        if end_lr < start_lr:
            raise ValueError(f'a rate warms up from start_lr to end_lr, and {start_lr} is above {end_lr}')
        self.learning_rate, self.warmup_steps = learning_rate, warmup_steps
        self.start_lr, self.end_lr = start_lr, end_lr
        super().__init__(start_lr, last_epoch, verbose)

    # Files have the state of the schedule that follows under this name.
    LinearWarmup_LR = property(lambda self: self.learning_rate)

    def state_keys(self):
        super().state_keys()
        if isinstance(self.learning_rate, LRScheduler):
            self.keys.append('LinearWarmup_LR')

    def get_lr(self):
        after = self.last_epoch - self.warmup_steps
        if after < 0:
            return self.start_lr + (self.end_lr - self.start_lr) * self.last_epoch / self.warmup_steps
        if not isinstance(self.learning_rate, LRScheduler):
            return self.learning_rate
        self.learning_rate.step(after)
        return self.learning_rate()


class MultiStepDecay(LRScheduler):
    """learning_rate times gamma at every milestone."""

    def __init__(self, learning_rate, milestones, gamma=0.1, last_epoch=-1, verbose=False):
        if not isinstance(milestones, (list, tuple)):
            raise TypeError(f'milestones must be a list of epochs, got {type(milestones).__name__}')
        if sorted(set(milestones)) != list(milestones):
            raise ValueError(f'milestones must be increasing, got {milestones}')
        self.milestones, self.gamma = milestones, _shrinking(gamma, 'gamma')
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self):
        passed = sum(milestone <= self.last_epoch for milestone in self.milestones)
        return self.base_lr * self.gamma ** passed


class StepDecay(LRScheduler):
    """learning_rate times gamma every step_size epochs."""

    def __init__(self, learning_rate, step_size, gamma=0.1, last_epoch=-1, verbose=False):
        self.step_size, self.gamma = _whole(step_size, 'step_size'), _shrinking(gamma, 'gamma')
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self):
        passed = self.last_epoch // self.step_size
        return self.base_lr * self.gamma ** passed


class _ByFunction(LRScheduler):
    """The function of the epoch that two schedulers take."""

    def __init__(self, learning_rate, lr_lambda, last_epoch=-1, verbose=False):
        if not callable(lr_lambda):
            raise TypeError(f'lr_lambda must be a function of the epoch, got {type(lr_lambda).__name__}')
        self.lr_lambda = lr_lambda
        super().__init__(learning_rate, last_epoch, verbose)


class LambdaDecay(_ByFunction):
    """learning_rate * lr_lambda(epoch)"""

    def get_lr(self):
        share = self.lr_lambda(self.last_epoch)
        return self.base_lr * share


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
        self.T_max, self.eta_min = _whole(T_max, 'T_max'), _number(eta_min, 'eta_min')
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self):
        angle = math.pi * self.last_epoch / self.T_max
        share = (math.cos(angle) + 1) / 2
        return self.eta_min + (self.base_lr - self.eta_min) * share


class ReduceOnPlateau(LRScheduler):
    """Times factor after more than patience epochs without a better metric: step(metric).

    Better is below best by more than threshold (mode 'max': above it); with threshold_mode 'rel' by
    more than best * threshold, which is a step the other way when best is negative. After a cut the
    next cooldown epochs are not looked at. A cut of epsilon or less is not made.
    """

    def __init__(self, learning_rate, mode='min', factor=0.1, patience=10, threshold=1e-4,
                 threshold_mode='rel', cooldown=0, min_lr=0, epsilon=1e-8, verbose=False):
        for name, value, known in (('mode', mode, ('min', 'max')),
                                   ('threshold_mode', threshold_mode, ('rel', 'abs'))):
            if value not in known:
                raise ValueError(f'{name} must be {known[0]!r} or {known[1]!r}, got {value!r}')
        self.mode, self.threshold_mode, self.threshold = mode, threshold_mode, threshold
        self.factor, self.min_lr, self.epsilon = _shrinking(factor, 'factor'), min_lr, epsilon
        self.patience, self.cooldown = patience, cooldown
        self.best, self.num_bad_epochs, self.cooldown_counter = None, 0, 0
        self._begin(learning_rate, 0, verbose)

    def state_keys(self):
        super().state_keys()
        self.keys += ['best', 'num_bad_epochs', 'cooldown_counter']

    def step(self, metrics, epoch=None):
        metric = _metric(metrics)
        self._go_to(epoch)
        if self.cooldown_counter > 0:
            self.cooldown_counter -= 1
            return
        improved = self._improves(metric)
        bad = 0 if improved else self.num_bad_epochs + 1
        if improved:
            self.best = metric
        out_of_patience = bad > self.patience
        self.num_bad_epochs = 0 if out_of_patience else bad
        if out_of_patience:
            self.cooldown_counter = self.cooldown
            self._cut()

    def _improves(self, metric):
        if self.best is None:
            return True
        margin = self.threshold * (self.best if self.threshold_mode == 'rel' else 1)
        return metric < self.best - margin if self.mode == 'min' else metric > self.best + margin

    def _cut(self):
        rate = max(self.factor * self.last_lr, self.min_lr)
        if self.last_lr - rate > self.epsilon:
            self._take(rate)


def _metric(value):
    """The one number of a float, an array or a fetched tensor."""
    array = numpy.asarray(value)
    if isinstance(value, (list, tuple)) or array.size != 1 or array.dtype.kind not in 'biuf':
        raise TypeError(f'metrics must be one number, got {type(value).__name__} {value!r}')
    return float(array.item())


class LinearLR(LRScheduler):
    """From start_factor to end_factor of the rate, in total_steps equal steps; the last one stays."""

    def __init__(self, learning_rate, total_steps, start_factor=1. / 3, end_factor=1.0, last_epoch=-1, verbose=False):
        if not 0 < start_factor <= 1 or not 0 <= end_factor <= 1:
            raise ValueError(f'LinearLR: factors must lie between 0 and 1, got {start_factor} and {end_factor}')
        self.start_factor, self.end_factor = start_factor, end_factor
        self.total_steps = _whole(total_steps, 'total_steps')
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self):
        share = min(self.last_epoch, self.total_steps) / self.total_steps
        return self.base_lr * (self.start_factor + (self.end_factor - self.start_factor) * share)


class CosineAnnealingWarmRestarts(LRScheduler):
    """Half a cosine from the rate to eta_min, over T_0 epochs, then from the top over T_mult times as many."""

    def __init__(self, learning_rate, T_0, T_mult=1, eta_min=0, last_epoch=-1, verbose=False):
        self.T_0, self.T_mult, self.eta_min = _whole(T_0, 'T_0'), _whole(T_mult, 'T_mult'), eta_min
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self):
        at, length = self.last_epoch, self.T_0
        while at >= length:
            at, length = at - length, length * self.T_mult
        return self.eta_min + (self.base_lr - self.eta_min) * (1 + math.cos(math.pi * at / length)) / 2


class CyclicLR(LRScheduler):
    """Up from base_learning_rate to max_learning_rate in step_size_up steps, down in step_size_down, again and again.

    mode 'triangular2' halves the height in every cycle, 'exp_range' multiplies it by exp_gamma in every step;
    scale_fn, of the cycle or of the iteration as scale_mode says, takes the place of both.
    """

    def __init__(self, base_learning_rate, max_learning_rate, step_size_up, step_size_down=None, mode='triangular',
                 exp_gamma=1., scale_fn=None, scale_mode='cycle', last_epoch=-1, verbose=False):
        modes = {'triangular': ('cycle', lambda x: 1.), 'triangular2': ('cycle', lambda x: 0.5 ** (x - 1)),
                 'exp_range': ('iterations', lambda x: exp_gamma ** x)}
        if mode not in modes and scale_fn is None:
            raise ValueError(f'CyclicLR: mode must be one of {", ".join(modes)}, got {mode!r}')
        if scale_mode not in ('cycle', 'iterations'):
            raise ValueError(f"CyclicLR: scale_mode must be 'cycle' or 'iterations', got {scale_mode!r}")
        self._scale_of, self._scale = (scale_mode, scale_fn) if scale_fn is not None else modes[mode]
        self.amplitude = _number(max_learning_rate, 'max_learning_rate') - base_learning_rate
        self._up = _whole(step_size_up, 'step_size_up')
        self._length = self._up + (self._up if step_size_down is None else _whole(step_size_down, 'step_size_down'))
        super().__init__(base_learning_rate, last_epoch, verbose)

    def get_lr(self):
        cycle, at = divmod(self.last_epoch, self._length)
        share = at / self._up if at <= self._up else (self._length - at) / (self._length - self._up)
        scale = self._scale(cycle + 1 if self._scale_of == 'cycle' else self.last_epoch)
        return self.base_lr + self.amplitude * share * scale


class OneCycleLR(LRScheduler):
    """Up from max_learning_rate / divide_factor to it, and down to end_learning_rate, in total_steps.

    Rising takes phase_pct of the steps. three_phase: falling back takes as many, and the rest goes to the end.
    """

    def __init__(self, max_learning_rate, total_steps, divide_factor=25., end_learning_rate=0.0001, phase_pct=0.3,
                 anneal_strategy='cos', three_phase=False, last_epoch=-1, verbose=False):
        if anneal_strategy not in ('cos', 'linear'):
            raise ValueError(f"OneCycleLR: anneal_strategy must be 'cos' or 'linear', got {anneal_strategy!r}")
        if not 0 <= phase_pct <= 1 or three_phase and phase_pct >= 0.5:
            raise ValueError(f'OneCycleLR: phase_pct must lie between 0 and 1 (below 0.5 with three_phase), got '
                             f'{phase_pct}')
        self.total_steps, self._by_cosine = _whole(total_steps, 'total_steps'), anneal_strategy == 'cos'
        top, first = _number(max_learning_rate, 'max_learning_rate'), max_learning_rate / divide_factor
        rise = phase_pct * total_steps
        if three_phase:
            self._ends = [0, rise - 1, 2 * rise - 2, total_steps - 1]
            self._rates = [first, top, first, end_learning_rate]
        else:
            self._ends, self._rates = [0, rise - 1, total_steps - 1], [first, top, end_learning_rate]
        super().__init__(first, last_epoch, verbose)

    def get_lr(self):
        step = self.last_epoch
        if step > self.total_steps:
            raise ValueError(f'OneCycleLR: step {step} is behind the last of {self.total_steps} steps')
        phase = next((i for i, end in enumerate(self._ends[1:]) if step <= end), len(self._ends) - 2)
        begin, end = self._ends[phase:phase + 2]
        share = (step - begin) / (end - begin)
        low, high = self._rates[phase:phase + 2]
        if self._by_cosine:
            share = (1 - math.cos(math.pi * share)) / 2
        return low + (high - low) * share
