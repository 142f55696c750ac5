"""Schedules of the host: rates, states, refusals. WITNESSED is what PaddlePaddle 2.6.2 gives."""
import numpy as np
import pytest

from paddle.optimizer import lr

# Options, metrics, the rate after each of them and the best metric at the end; all begin at 0.5.
WITNESSED = [
    # Negative metrics: best * threshold points the other way, so a little worse is still better.
    (dict(patience=0, threshold=0.1),
     [-1.0, -1.2, -1.15, -1.0, -0.95, -2.0, -1.85, -1.7],
     [0.5, 0.5, 0.5, 0.25, 0.125, 0.125, 0.125, 0.125], -1.7),
    (dict(patience=0, threshold=0.1, mode='max'),
     [-1.0, -1.05, -1.1, -1.3, -0.9, -0.95, -1.2, 0.0, 0.0, 0.1],
     [0.5, 0.5, 0.5, 0.25, 0.25, 0.25, 0.125, 0.125, 0.0625, 0.0625], 0.1),
    (dict(patience=0, threshold=0.25, threshold_mode='abs'),
     [-1.0, -1.2, -1.3, -1.5, -1.75, -2.1],
     [0.5, 0.25, 0.25, 0.125, 0.125, 0.125], -2.1),
    (dict(patience=0, threshold=0.25, threshold_mode='abs', mode='max'),
     [-1.0, -0.8, -0.7, -0.5, -0.25, 0.1],
     [0.5, 0.25, 0.25, 0.125, 0.125, 0.125], 0.1),
    (dict(patience=1, cooldown=2),
     [3.0, 2.0, 2.5, 2.6, 2.7, 2.8, 2.9, 3.0, 1.0, 1.5, 1.5],
     [0.5, 0.5, 0.5, 0.25, 0.25, 0.25, 0.25, 0.125, 0.125, 0.125, 0.125], 1.5),
    (dict(patience=0, min_lr=0.2), [1.0, 1.0, 1.0, 1.0], [0.5, 0.25, 0.2, 0.2], 1.0),
    (dict(patience=0, factor=0.9, epsilon=0.06), [1.0, 1.0, 1.0], [0.5, 0.5, 0.5], 1.0),
    (dict(patience=0, factor=0.9, epsilon=0.04), [1.0, 1.0, 1.0, 1.0, 1.0],
     [0.5, 0.45, 0.405, 0.36450000000000005, 0.36450000000000005], 1.0),
]


@pytest.mark.parametrize('options, metrics, rates, best', WITNESSED)
def test_a_plateau_lowers_the_rate(options, metrics, rates, best):
    schedule = lr.ReduceOnPlateau(0.5, **{'factor': 0.5, **options})
    seen = []
    for metric in metrics:
        schedule.step(metric)
        seen.append(schedule())
    assert seen == rates
    assert schedule.best == best and schedule.last_epoch == len(metrics)


def test_a_plateau_goes_on_from_its_state():
    metrics = [2.0, 2.1, 2.2, 2.3, 1.0, 1.1, 1.2, 1.3, 1.4]
    options = dict(factor=0.5, patience=1, cooldown=1)
    straight, first = lr.ReduceOnPlateau(0.5, **options), lr.ReduceOnPlateau(0.5, **options)
    for metric in metrics:
        straight.step(metric)
    for metric in metrics[:3]:
        first.step(metric)
    second = lr.ReduceOnPlateau(0.5, **options)
    second.set_state_dict(first.state_dict())
    for metric in metrics[3:]:
        second.step(metric)
    assert second.state_dict() == straight.state_dict()
    assert sorted(straight.state_dict()) == ['best', 'cooldown_counter', 'last_epoch', 'last_lr', 'num_bad_epochs']


@pytest.mark.parametrize('metric', [1, 1.0, np.float32(1), np.array([1.0], 'float32'), np.array(1.0)])
def test_a_metric_is_one_number_of_any_kind(metric):
    schedule = lr.ReduceOnPlateau(0.5)
    schedule.step(metric)
    assert schedule.best == 1.0 and type(schedule.best) is float


@pytest.mark.parametrize('metric', ['1', None, [1.0], np.array([1.0, 2.0])])
def test_what_is_not_one_number_is_refused(metric):
    with pytest.raises(TypeError, match='metrics must be one number, got'):
        lr.ReduceOnPlateau(0.5).step(metric)


def warmed(step_size=2):
    return lr.LinearWarmup(lr.StepDecay(0.5, step_size, gamma=0.5), warmup_steps=3, start_lr=0.0, end_lr=0.5)


def test_a_warmup_saves_the_schedule_that_follows_it():
    first = warmed()
    assert first.state_dict() == {'last_epoch': 0, 'last_lr': 0.0,
                                  'LinearWarmup_LR': {'last_epoch': 0, 'last_lr': 0.5}}
    for _ in range(6):
        first.step()
    state = first.state_dict()
    assert state == {'last_epoch': 6, 'last_lr': 0.25, 'LinearWarmup_LR': {'last_epoch': 3, 'last_lr': 0.25}}
    second = warmed()
    second.set_state_dict(state)
    assert second() == 0.25 and second.learning_rate.last_epoch == 3 and second.learning_rate() == 0.25
    for schedule in (first, second):
        schedule.step()
    assert second.state_dict() == first.state_dict()


def test_a_state_that_does_not_fit_is_told():
    with pytest.raises(RuntimeError, match='a LinearWarmup needs LinearWarmup_LR, and this one has only'):
        warmed().set_state_dict(lr.StepDecay(0.5, 2).state_dict())
    with pytest.raises(RuntimeError, match='needs last_epoch, last_lr, and this one has only nothing'):
        lr.StepDecay(0.5, 2).set_state_dict({})
    plain = lr.LinearWarmup(0.5, 3, 0.0, 0.5)
    assert set(plain.state_dict()) == {'last_epoch', 'last_lr'}
    with pytest.warns(UserWarning, match='no use for LinearWarmup_LR'):
        plain.set_state_dict(warmed().state_dict())


def test_a_refused_state_changes_nothing():
    schedule = warmed()
    with pytest.raises(RuntimeError):
        schedule.set_state_dict({'last_epoch': 6, 'last_lr': 0.25})
    with pytest.raises(RuntimeError):
        schedule.set_state_dict({'last_epoch': 6, 'last_lr': 0.25, 'LinearWarmup_LR': {'last_epoch': 3}})
    assert schedule.last_epoch == 0 and schedule() == 0.0


SCHEDULES = {
    'noam': (lambda: lr.NoamDecay(4, 2), lambda n: 0.5 * min((n or 1) ** -0.5, n * 2 ** -1.5)),
    'piecewise': (lambda: lr.PiecewiseDecay([2, 4], [0.4, 0.2, 0.1]),
                  lambda n: 0.4 if n < 2 else 0.2 if n < 4 else 0.1),
    'natural_exp': (lambda: lr.NaturalExpDecay(0.5, 0.1), lambda n: 0.5 * np.exp(-0.1 * n)),
    'inverse_time': (lambda: lr.InverseTimeDecay(0.5, 0.1), lambda n: 0.5 / (1 + 0.1 * n)),
    'exponential': (lambda: lr.ExponentialDecay(0.5, 0.9), lambda n: 0.5 * 0.9 ** n),
    'polynomial': (lambda: lr.PolynomialDecay(0.5, 4, 0.1, 2.0),
                   lambda n: 0.4 * (1 - min(n, 4) / 4) ** 2 + 0.1),
    'polynomial, cycle': (lambda: lr.PolynomialDecay(0.5, 4, 0.1, cycle=True),
                          lambda n: 0.4 * (1 - n / (4 if n <= 4 else 8)) + 0.1),
    'warmup': (warmed, lambda n: 0.5 * n / 3 if n < 3 else 0.5 * 0.5 ** ((n - 3) // 2)),
    'multi_step': (lambda: lr.MultiStepDecay(0.5, [2, 5]), lambda n: 0.5 * 0.1 ** ((n >= 2) + (n >= 5))),
    'step': (lambda: lr.StepDecay(0.5, 3), lambda n: 0.5 * 0.1 ** (n // 3)),
    'lambda': (lambda: lr.LambdaDecay(0.5, lambda n: 0.9 ** n), lambda n: 0.5 * 0.9 ** n),
    'multiplicative': (lambda: lr.MultiplicativeDecay(0.5, lambda n: 1 / n),
                       lambda n: 0.5 / np.prod(range(1, n + 1))),
    'cosine': (lambda: lr.CosineAnnealingDecay(0.5, 4, 0.1), lambda n: 0.3 + 0.2 * np.cos(np.pi * n / 4)),
}


@pytest.mark.parametrize('name', SCHEDULES)
def test_a_schedule_follows_its_formula(name):
    make, formula = SCHEDULES[name]
    schedule = make()
    for epoch in range(8):
        assert schedule() == pytest.approx(formula(epoch), rel=1e-12, abs=1e-15)
        schedule.step()
    schedule.step(2)
    assert schedule() == pytest.approx(formula(2), rel=1e-12)


@pytest.mark.parametrize('make, error, text', [
    (lambda: lr.StepDecay('0.5', 2), TypeError, 'learning_rate must be a number, got str'),
    (lambda: lr.StepDecay(-0.5, 2), ValueError, 'negative'),
    (lambda: lr.StepDecay(0.5, 0), ValueError, 'step_size must be at least 1'),
    (lambda: lr.StepDecay(0.5, 1.5), TypeError, 'step_size must be an int'),
    (lambda: lr.StepDecay(0.5, 1, gamma=1.0), ValueError, 'gamma must be less than 1'),
    (lambda: lr.MultiStepDecay(0.5, [3, 3]), ValueError, 'milestones must be increasing'),
    (lambda: lr.MultiStepDecay(0.5, 3), TypeError, 'milestones must be a list'),
    (lambda: lr.MultiStepDecay(0.5, [3], gamma=2.0), ValueError, 'gamma must be less than 1'),
    (lambda: lr.PolynomialDecay(0.5, -1), ValueError, 'decay_steps must be at least 1'),
    (lambda: lr.CosineAnnealingDecay(0.5, 2.0), TypeError, 'T_max must be an int'),
    (lambda: lr.CosineAnnealingDecay(0.5, 2, 'low'), TypeError, 'eta_min must be a number'),
    (lambda: lr.NoamDecay(0, 2), ValueError, 'd_model'),
    (lambda: lr.PiecewiseDecay([1, 2], [0.1, 0.2]), ValueError, '2 boundaries need 3 values, got 2'),
    (lambda: lr.LinearWarmup('0.5', 2, 0.0, 0.5), TypeError, 'LRScheduler, got str'),
    (lambda: lr.LinearWarmup(0.5, 2, 0.5, 0.1), ValueError, '0.5 is above 0.1'),
    (lambda: lr.LambdaDecay(0.5, 0.9), TypeError, 'lr_lambda must be a function'),
    (lambda: lr.ReduceOnPlateau(0.5, mode='least'), ValueError, "mode must be 'min' or 'max', got 'least'"),
    (lambda: lr.ReduceOnPlateau(0.5, threshold_mode='x'), ValueError, "_mode must be 'rel' or 'abs'"),
    (lambda: lr.ReduceOnPlateau(0.5, factor=1.0), ValueError, 'factor must be less than 1'),
    (lambda: lr.LRScheduler(0.5), NotImplementedError, 'define get_lr'),
])
def test_wrong_arguments_are_named(make, error, text):
    with pytest.raises(error, match=text):
        make()


def test_verbose_tells_every_new_rate(capsys):
    lr.StepDecay(0.5, 1, gamma=0.5, verbose=True).step()
    plateau = lr.ReduceOnPlateau(0.5, factor=0.5, patience=0, verbose=True)
    for metric in (1.0, 2.0, 0.5):
        plateau.step(metric)
    assert capsys.readouterr().out.splitlines() == [
        'StepDecay: the rate is 0.5 from epoch 0 on', 'StepDecay: the rate is 0.25 from epoch 1 on',
        'ReduceOnPlateau: the rate is 0.25 from epoch 2 on']
