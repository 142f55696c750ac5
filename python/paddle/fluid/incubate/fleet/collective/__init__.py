"""A fleet of ranks: all train on a part of the batch, and exchange gradients."""
import json
import os
import shutil

import _trireme as _C
from paddle.fluid import io
from paddle.fluid.compiler import CompiledProgram
from paddle.fluid.strategy import BuildStrategy, ExecutionStrategy
from paddle.fluid.transpiler import DistributeTranspiler, DistributeTranspilerConfig

from ..base.fleet_base import DistributedOptimizer, Fleet, Mode, one_loss, one_startup

__all__ = ['fleet', 'Collective', 'CollectiveOptimizer', 'DistributedStrategy', 'TrainStatus']

_CHECKPOINT = '__paddle_fleet_checkpoint__'
_STATUS = 'fleet_train_status'


class TrainStatus:
    """How far a training is: the last whole epoch, and how many batches of the next one are behind it."""

    def __init__(self, epoch_no=-1, batch_no=0):
        self._epoch_no, self.batch_no = epoch_no, batch_no

    def next(self):
        return self._epoch_no + 1

    def _as_text(self):
        return json.dumps({'epoch_no': self._epoch_no, 'batch_no': self.batch_no})

    @staticmethod
    def _from_text(text):
        told = json.loads(text)
        return TrainStatus(told['epoch_no'], told['batch_no'])

    def __eq__(self, other):
        return isinstance(other, TrainStatus) and self._as_text() == other._as_text()

    def __hash__(self):
        return hash(self._as_text())


_OWN = {'use_local_sgd': False, 'use_dist_fc': False, 'dist_fc_config': None,
        'mode': 'nccl2',  # or collective
        'collective_mode': None,  # local_sgd or grad_allreduce
        'forward_recompute': False, 'recompute_checkpoints': [], 'use_amp': False,
        'amp_loss_scaling': 2 ** 15, 'exec_strategy': None}


class DistributedStrategy(BuildStrategy):
    """A BuildStrategy, and how ranks train together."""

    def __init__(self):
        super().__init__()
        self.__dict__.update(_OWN, recompute_checkpoints=[], exec_strategy=ExecutionStrategy())

    def __setattr__(self, name, value):
        if name in _OWN:
            self.__dict__[name] = value
        else:
            super().__setattr__(name, value)


class Collective(Fleet):
    def __init__(self):
        super().__init__(Mode.COLLECTIVE)
        self._loss = self._transpiled_program = None

    def distributed_optimizer(self, optimizer, strategy=None):
        made = self._optimizer = CollectiveOptimizer(optimizer, strategy)
        return made

    def save_inference_model(self, executor, dirname, feeded_var_names=None, target_vars=None,
                             main_program=None, export_for_deployment=True):
        self._check_executor(executor)
        io.save_inference_model(dirname, feeded_var_names, target_vars, executor,
                                main_program or self._origin_main_program, None, None, export_for_deployment)

    def save_persistables(self, executor, dirname, main_program=None, filename=None):
        self._check_executor(executor)
        io.save_persistables(executor, dirname, main_program or self._origin_main_program, filename)

    def _checkpoints(self, path):
        numbers = [name.rpartition('.')[2] for name in (os.listdir(path) if os.path.isdir(path) else [])
                   if name.startswith(_CHECKPOINT + '.')]
        return sorted(int(each) for each in numbers if each.isdigit())

    def save_check_point(self, executor, path, train_status, main_program=None, fs=None,
                         local_cache_path='.cache', remain_all_checkpoint=True):
        """All that training needs to go on, under the next number: parameters, what optimizers and
        schedules keep, how far random numbers are, train_status; whole, or not at all. One rank saves."""
        if fs is not None:
            raise NotImplementedError('save_check_point(fs=...): checkpoints are saved on local disks')
        numbers = self._checkpoints(path)
        number = numbers[-1] + 1 if numbers else 0
        whole = os.path.join(path, f'{_CHECKPOINT}.{number}')
        part = whole + '.tmp'
        shutil.rmtree(part, ignore_errors=True)  # of a save that was cut off
        self._check_executor(executor)
        _C.save_checkpoint(_C.global_scope(), part, self._kept(main_program), {_STATUS: train_status._as_text()})
        os.rename(part, whole)
        held = os.open(path, os.O_RDONLY)
        try:
            os.fsync(held)  # the name as well
        finally:
            os.close(held)
        if not remain_all_checkpoint:
            self.clean_redundant_check_points(path)
        return number

    def load_check_point(self, executor, path, trainer_id=None, main_program=None, fs=None,
                         local_cache_path='.cache', ignore_empty=True):
        """The last that was saved: TrainStatus; None where there is none."""
        numbers = self._checkpoints(path)
        if not numbers:
            if not ignore_empty:
                raise RuntimeError(f'{path} holds no checkpoint')
            return None
        last = os.path.join(path, f'{_CHECKPOINT}.{numbers[-1]}')
        self._check_executor(executor)
        notes = _C.load_checkpoint(_C.global_scope(), last, self._kept(main_program), [_STATUS])
        return TrainStatus._from_text(notes[_STATUS])

    def _kept(self, main_program):
        program = main_program or self._origin_main_program
        return [var for var in program.list_vars() if io.is_persistable(var)]

    def clean_redundant_check_points(self, root_path, fs=None, checkpoint_num=1):
        for number in self._checkpoints(root_path)[:-checkpoint_num]:
            shutil.rmtree(os.path.join(root_path, f'{_CHECKPOINT}.{number}'))


fleet = Collective()


class CollectiveOptimizer(DistributedOptimizer):
    """Makes the program of a rank of it."""

    def __init__(self, optimizer, strategy=None):
        super().__init__(optimizer, strategy or DistributedStrategy())
        strategy = self._strategy
        if not isinstance(strategy, DistributedStrategy):
            raise TypeError('strategy must be a DistributedStrategy of fluid.incubate.fleet.collective, got '
                            f'{type(strategy).__name__}')
        if strategy.use_dist_fc:
            raise NotImplementedError('DistributedStrategy.use_dist_fc: a layer cut over ranks is not built')
        if strategy.mode not in ('nccl2', 'collective'):
            raise ValueError(f"DistributedStrategy.mode is {strategy.mode!r}: it must be 'nccl2' or 'collective'")

    def _wrapped(self):
        from paddle.fluid.contrib import mixed_precision
        from paddle.fluid.optimizer import RecomputeOptimizer
        optimizer, strategy = self._optimizer, self._strategy
        if strategy.forward_recompute:
            if not strategy.recompute_checkpoints:
                raise ValueError('DistributedStrategy.forward_recompute is set, but recompute_checkpoints is empty')
            optimizer = RecomputeOptimizer(optimizer)
            optimizer._set_checkpoints(list(strategy.recompute_checkpoints))
        if strategy.use_amp:
            optimizer = mixed_precision.decorate(optimizer, init_loss_scaling=strategy.amp_loss_scaling,
                                                 use_dynamic_loss_scaling=True)
        return optimizer

    def minimize(self, loss, startup_program=None, parameter_list=None, no_grad_set=None):
        loss, startup = one_loss(loss), one_startup(startup_program)
        main, strategy = loss.block.program, self._strategy
        result = self._wrapped().minimize(loss, startup, parameter_list, no_grad_set)
        fleet._loss = loss
        fleet.startup_program = startup
        fleet._origin_main_program = main.clone(for_test=False)
        fleet._origin_startup_program = startup
        mode, how = strategy.mode, strategy.collective_mode
        if strategy.use_local_sgd:
            mode, how = 'collective', 'local_sgd'
        if mode == 'collective' and how is None:
            how = 'grad_allreduce'
        endpoints = fleet.worker_endpoints()
        if len(endpoints) > 1:
            self._transpile(main, startup, mode, how, endpoints)
        fleet._transpiled_program = main
        fleet.main_program = self._compiled(main, loss, endpoints) if mode == 'nccl2' else main
        return result

    def _transpile(self, main, startup, mode, how, endpoints):
        config, strategy = DistributeTranspilerConfig(), self._strategy
        config.mode, config.collective_mode = mode, how
        config.nccl_comm_num = strategy.nccl_comm_num
        config.use_hierarchical_allreduce = strategy.use_hierarchical_allreduce
        config.hierarchical_allreduce_inter_nranks = strategy.hierarchical_allreduce_inter_nranks
        number = fleet.worker_index()
        DistributeTranspiler(config).transpile(
            number, program=main, startup_program=startup, current_endpoint=endpoints[number],
            trainers=','.join(endpoints) if mode == 'nccl2' else endpoints)

    def _compiled(self, main, loss, endpoints):
        strategy = self._strategy
        strategy.num_trainers, strategy.trainer_id = len(endpoints), fleet.worker_index()
        strategy.trainers_endpoints = endpoints
        return CompiledProgram(main).with_data_parallel(
            loss_name=loss.name, build_strategy=strategy, exec_strategy=strategy.exec_strategy)
