"""Trainer: the loop around Executor.run, with events, tests and checkpoints."""
import contextlib
import os
import shutil

from .. import core, io, unique_name
from ..compiler import CompiledProgram
from ..data_feeder import DataFeeder
from ..executor import Executor, scope_guard
from ..framework import Program, Variable, program_guard
from ..optimizer import Optimizer

__all__ = ['Trainer', 'BeginEpochEvent', 'EndEpochEvent', 'BeginStepEvent', 'EndStepEvent', 'CheckpointConfig']


class BeginEpochEvent:
    def __init__(self, epoch_id):
        self.epoch = epoch_id


class EndEpochEvent:
    def __init__(self, epoch_id):
        self.epoch = epoch_id


class BeginStepEvent:
    """fetch_metrics set to False by the handler spares the step the metrics."""

    def __init__(self, epoch_id, step_id):
        self.epoch, self.step, self.fetch_metrics = epoch_id, step_id, True


class EndStepEvent:
    """metrics: what train_func returned, as arrays."""

    def __init__(self, epoch_id, step_id, metrics):
        self.epoch, self.step, self.metrics = epoch_id, step_id, metrics


class CheckpointConfig:
    """Every step_interval steps of every epoch_interval epochs all variables are written; the newest ones stay."""

    def __init__(self, checkpoint_dir=None, max_num_checkpoints=3, epoch_interval=1, step_interval=10):
        assert epoch_interval >= 1 and step_interval >= 1, 'intervals of checkpoints must be positive'
        self.checkpoint_dir = checkpoint_dir or os.getcwd()
        self.max_num_checkpoints = max_num_checkpoints
        self.epoch_interval, self.step_interval = epoch_interval, step_interval
        self.epoch_id = self.step_id = 0

    def _folders(self):
        """Those with a checkpoint in them, the newest last."""
        if not os.path.isdir(self.checkpoint_dir):
            return []
        numbers = [int(name[11:]) for name in os.listdir(self.checkpoint_dir)
                   if name.startswith('checkpoint_') and name[11:].isdigit()]
        return [os.path.join(self.checkpoint_dir, f'checkpoint_{number}') for number in sorted(numbers)]

    def _save(self, executor, program, epoch, step):
        folders = self._folders()
        number = int(folders[-1].rpartition('_')[2]) + 1 if folders else 0
        made = os.path.join(self.checkpoint_dir, f'.checkpoint_{number}.part')
        io.save_persistables(executor, made, program)
        with open(os.path.join(made, '__where__'), 'w') as file:
            file.write(f'{epoch} {step}')
        os.rename(made, os.path.join(self.checkpoint_dir, f'checkpoint_{number}'))  # whole, or not there
        for old in self._folders()[:-self.max_num_checkpoints]:
            shutil.rmtree(old)

    def _load(self, executor, program):
        folders = self._folders()
        if folders:
            io.load_persistables(executor, folders[-1], program)
            with open(os.path.join(folders[-1], '__where__')) as file:
                self.epoch_id, self.step_id = map(int, file.read().split())


def check_and_get_place(place):
    return core.CPUPlace() if place is None else place


class Trainer:
    """train_func() builds the net and returns its loss, or a list that begins with it; optimizer_func() gives the
    optimizer."""

    def __init__(self, train_func, optimizer_func, param_path=None, place=None, parallel=False,
                 checkpoint_config=None):
        if checkpoint_config is not None and not isinstance(checkpoint_config, CheckpointConfig):
            raise TypeError('checkpoint_config must be a CheckpointConfig, '
                            f'got {type(checkpoint_config).__name__}')
        self.parallel, self.place, self.checkpoint_cfg = parallel, check_and_get_place(place), checkpoint_config
        self.scope, self.startup_program, self.train_program = core.Scope(), Program(), Program()
        self._stopped = False
        with program_guard(self.train_program, self.startup_program), unique_name.guard():
            returned = train_func()
            self.train_func_outputs = list(returned) if isinstance(returned, (list, tuple)) else [returned]
            self.test_program = self.train_program.clone(for_test=True)
            if not isinstance(self.train_func_outputs[0], Variable):
                raise TypeError('train_func must return its loss, or a list that begins with it')
            optimizer = optimizer_func()
            if not isinstance(optimizer, Optimizer):
                raise TypeError(f'optimizer_func must return an Optimizer, got {type(optimizer).__name__}')
            optimizer.minimize(self.train_func_outputs[0])
        with self._prog_and_scope_guard():
            exe = Executor(self.place)
            exe.run(self.startup_program)
            if self.checkpoint_cfg is not None:
                self.checkpoint_cfg._load(exe, self.train_program)
            if param_path and os.path.isdir(param_path):
                io.load_persistables(exe, param_path, self.train_program)

    @contextlib.contextmanager
    def _prog_and_scope_guard(self):
        with program_guard(self.train_program, self.startup_program), scope_guard(self.scope):
            yield

    def stop(self):
        """Called by a handler, ends train() behind the event."""
        self._stopped = True

    def train(self, num_epochs, event_handler, reader=None, feed_order=None):
        """reader() yields batches of samples, whose values are those of the variables in feed_order."""
        self._stopped = False
        program = self.train_program
        if self.parallel:
            program = CompiledProgram(program).with_data_parallel(self.train_func_outputs[0].name)
        config = self.checkpoint_cfg
        with self._prog_and_scope_guard():
            exe = Executor(self.place)
            feeder = build_feeder(feed_order, self.train_program, self.place)
            for epoch in range(config.epoch_id if config else 0, num_epochs):
                event_handler(BeginEpochEvent(epoch))
                for step, batch in enumerate(reader()):
                    if self._stopped:
                        return
                    if config and epoch == config.epoch_id and step < config.step_id:
                        continue  # done before the checkpoint
                    self._step(exe, program, feeder.feed(batch), epoch, step, event_handler)
                event_handler(EndEpochEvent(epoch))
                if self._stopped:
                    return
            if config:
                for folder in config._folders():
                    shutil.rmtree(folder)

    def _step(self, exe, program, feed, epoch, step, event_handler):
        begin = BeginStepEvent(epoch, step)
        event_handler(begin)
        fetched = self.train_func_outputs if begin.fetch_metrics else []
        metrics = exe.run(program, feed=feed, fetch_list=fetched)
        config = self.checkpoint_cfg
        if config and epoch % config.epoch_interval == 0 and (step + 1) % config.step_interval == 0:
            config._save(exe, self.train_program, epoch, step + 1)
        event_handler(EndStepEvent(epoch, step, metrics))

    def test(self, reader, feed_order):
        """The means over reader() of what train_func returned, without training."""
        with scope_guard(self.scope):
            exe = Executor(self.place)
            feeder = build_feeder(feed_order, self.test_program, self.place)
            names = [var.name for var in self.train_func_outputs]
            sums, count = [0.0] * len(names), 0
            for batch in reader():
                values = exe.run(self.test_program, feed=feeder.feed(batch), fetch_list=names)
                sums = [total + value.reshape(-1)[0] for total, value in zip(sums, values)]
                count += 1
            return [total / count for total in sums]

    def save_params(self, param_path):
        with scope_guard(self.scope):
            io.save_persistables(Executor(self.place), param_path, self.train_program)

    def save_inference_model(self, param_path, feeded_var_names, target_var_indexes):
        """target_var_indexes: which of what train_func returned."""
        with scope_guard(self.scope):
            targets = [self.train_func_outputs[index] for index in target_var_indexes]
            io.save_inference_model(param_path, feeded_var_names, targets, Executor(self.place), self.test_program)


def build_feeder(feed_order, program, place):
    """feed_order: names, or name -> where it stands in a sample; None: the data variables as they were made."""
    if feed_order is None:
        feed_order = [var.name for var in program.global_block().vars.values() if var.is_data]
    elif isinstance(feed_order, dict):
        if sorted(feed_order.values()) != list(range(len(feed_order))):
            raise ValueError(f'the places in feed_order must be 0 to {len(feed_order) - 1}, got '
                             f'{sorted(feed_order.values())}')
        feed_order = sorted(feed_order, key=feed_order.get)
    elif not isinstance(feed_order, list):
        raise TypeError(f'feed_order must be None, a list or a dict, got {type(feed_order).__name__}')
    return DataFeeder(feed_list=[program.global_block().var(name) for name in feed_order], place=place)
