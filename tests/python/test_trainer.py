"""contrib.Trainer and contrib.Inferencer: events, tests, saved parameters, checkpoints."""
import numpy as np
import pytest

import paddle.fluid as fluid
from paddle.fluid import contrib
from paddle.fluid.trainer import CheckpointConfig, EndStepEvent, Trainer


def guess():
    return fluid.layers.fc(fluid.layers.data('x', [2]), 1, param_attr=fluid.ParamAttr('w'), bias_attr=fluid.ParamAttr('b'))


def train_func():
    label = fluid.layers.data('y', [1])
    return fluid.layers.mean(fluid.layers.square_error_cost(guess(), label))


def optimizer_func():
    return fluid.optimizer.SGD(0.2)


def reader(count=20):
    numbers = np.random.RandomState(3)
    for _ in range(count):
        rows = numbers.rand(8, 2).astype('float32')
        yield [(row, row.sum(keepdims=True)) for row in rows]


def made(**settings):
    return Trainer(train_func, optimizer_func, **settings)


@pytest.mark.parametrize('parallel', [False, True])
def test_a_trainer_trains_and_its_parameters_infer(tmp_path, parallel):
    trainer, losses, kinds = made(parallel=parallel), [], set()

    def handler(event):
        kinds.add(type(event).__name__)
        if isinstance(event, EndStepEvent):
            losses.append(np.mean(event.metrics[0]))
    trainer.train(3, handler, reader, ['x', 'y'])
    assert losses[-1] < 0.1 * losses[0] and len(losses) == 60
    assert kinds == {'BeginEpochEvent', 'EndEpochEvent', 'BeginStepEvent', 'EndStepEvent'}
    assert trainer.test(reader, {'x': 0, 'y': 1})[0] < 0.1 * losses[0]
    trainer.save_params(str(tmp_path / 'params'))
    found, = contrib.Inferencer(guess, str(tmp_path / 'params')).infer({'x': np.float32([[0.5, 0.25]])})
    assert found.item() == pytest.approx(0.75, abs=0.2)
    again = made(param_path=str(tmp_path / 'params'))
    assert again.test(reader, ['x', 'y']) == pytest.approx(trainer.test(reader, ['x', 'y']))


def test_a_handler_may_stop_and_spare_metrics():
    trainer, seen = made(), []

    def handler(event):
        if isinstance(event, contrib.BeginStepEvent):
            event.fetch_metrics = False
        if isinstance(event, EndStepEvent):
            seen.append(event.metrics)
            if event.step == 2:
                trainer.stop()
    trainer.train(2, handler, reader, ['x', 'y'])
    assert seen == [[], [], []]


def test_training_goes_on_behind_a_checkpoint(tmp_path):
    def stopping(event):
        if isinstance(event, EndStepEvent) and (event.epoch, event.step) == (1, 6):
            first.stop()
    config = CheckpointConfig(str(tmp_path), max_num_checkpoints=2, step_interval=5)
    first = made(checkpoint_config=config)
    first.train(3, stopping, reader, ['x', 'y'])
    assert [path.rpartition('_')[2] for path in config._folders()] == ['3', '4']
    steps, second = [], made(checkpoint_config=CheckpointConfig(str(tmp_path), step_interval=5))
    second.train(3, lambda event: steps.append((event.epoch, event.step)) if isinstance(event, EndStepEvent) else None,
                 reader, ['x', 'y'])
    assert steps[0] == (1, 5) and len(steps) == 15 + 20
    assert config._folders() == []  # it came to the end


@pytest.mark.parametrize('use, error', [
    (lambda: Trainer(lambda: 3, optimizer_func), 'its loss'), (lambda: Trainer(train_func, lambda: 3), 'an Optimizer'),
    (lambda: made().train(1, print, reader, {'x': 0, 'y': 2}), '0 to 1'),
    (lambda: made().train(1, print, reader, 'xy'), 'None, a list or a dict'),
    (lambda: made(checkpoint_config='here'), 'CheckpointConfig')])
def test_misuse(use, error):
    with pytest.raises((TypeError, ValueError), match=error):
        use()
