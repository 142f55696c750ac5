"""A fleet with parameter servers, whose programs DistributeTranspiler makes."""
import os

from paddle.fluid import io
from paddle.fluid.communicator import Communicator
from paddle.fluid.framework import Program
from paddle.fluid.transpiler import DistributeTranspiler
from paddle.fluid.transpiler.distribute_transpiler import DistributedMode
from paddle.fluid.transpiler.geo_sgd_transpiler import GeoSgdTranspiler

from ...base.fleet_base import DistributedOptimizer, Fleet, Mode, one_loss, one_startup
from . import distributed_strategy
from .distributed_strategy import StrategyFactory, strategy_of

__all__ = ['fleet', 'DistributedTranspiler', 'TranspilerOptimizer', 'StrategyFactory']


class DistributedTranspiler(Fleet):
    def __init__(self):
        super().__init__(Mode.TRANSPILER)
        self._transpiler = self._communicator = None

    def _made(self):
        if self.main_program is None:
            raise RuntimeError('call fleet.distributed_optimizer(optimizer, strategy).minimize(loss) first')

    def init_worker(self):
        """Before the startup program: from here on this trainer's steps go to the servers."""
        self._made()
        if not self.is_worker():
            raise RuntimeError('init_worker is for trainers, and this process is a server')
        config = self._optimizer._strategy.get_program_config()
        geo = config.geo_sgd_mode
        self._communicator = Communicator(
            self.main_program, DistributedMode.GEO if geo else DistributedMode.ASYNC,
            {'trainers': self.worker_num(), 'geo_need_push_nums': config.geo_sgd_need_push_nums})
        self._communicator.start()

    def run_worker(self, *args, **kwargs):
        raise NotImplementedError('run_worker: run fleet.main_program with an Executor')

    def init_server(self, model_dir=None, **kwargs):
        """Starts the server's variables; model_dir: from what save_persistables wrote there."""
        self._made()
        if not self.is_server():
            raise RuntimeError('init_server is for servers, and this process is a trainer')
        if kwargs:
            raise TypeError(f'init_server does not know {sorted(kwargs)}')
        self._executor.run(self.startup_program)
        if model_dir is None:
            return
        if not os.path.isdir(model_dir):
            raise ValueError(f'init_server: there is no directory {model_dir!r}')
        io.load_persistables(self._executor, model_dir, self.main_program)

    def run_server(self):
        """Serves until the last trainer has left."""
        self._made()
        if not self.is_server():
            raise RuntimeError('run_server is for servers, and this process is a trainer')
        self._executor.run(self.main_program)

    def stop_worker(self):
        """Tells the servers that this trainer is at its end."""
        self._role()
        if self._communicator is not None:
            self._communicator.stop()
        self._executor.close()

    def distributed_optimizer(self, optimizer, strategy=None):
        made = self._optimizer = TranspilerOptimizer(optimizer, strategy)
        return made

    def save_inference_model(self, executor, dirname, feeded_var_names, target_vars, main_program=None,
                             export_for_deployment=True):
        self._check_executor(executor)
        program = main_program or self._origin_main_program
        if not isinstance(program, Program):
            raise TypeError(f'main_program must be a Program, got {type(program).__name__}')
        io.save_inference_model(dirname, feeded_var_names, target_vars, executor, program, None, None,
                                export_for_deployment)

    def save_persistables(self, executor, dirname, main_program=None, **kwargs):
        """Parameters, and what servers keep beside them: by the first trainer."""
        self._check_executor(executor)
        program = main_program or self.main_program
        if not isinstance(program, Program):
            raise TypeError(f'main_program must be a Program, got {type(program).__name__}')
        io.save_persistables(executor, dirname, program)

    def _transpile(self, optimizer, main, startup):
        strategy = optimizer._strategy
        config = strategy.get_program_config()
        self._origin_main_program = main.clone(for_test=False)
        self._origin_startup_program = startup.clone()
        made = (GeoSgdTranspiler if config.geo_sgd_mode else DistributeTranspiler)(config)
        if not config.geo_sgd_mode:
            made._set_server_config(strategy.get_server_runtime_config())
        endpoints = self.server_endpoints()
        own = endpoints[self.server_index()] if self.is_server() else endpoints[0]
        # A server's number is among servers: any trainer's will do there.
        trainer = self.worker_index() if self.is_worker() else 0
        made.transpile(trainer_id=trainer, program=main, startup_program=startup,
                       pservers=','.join(endpoints), trainers=self.worker_num(), sync_mode=config.sync_mode,
                       current_endpoint=own)
        self._transpiler = made
        if self.is_worker():
            self.main_program = made.get_trainer_program(wait_port=config.wait_port)
            self.startup_program = startup
        else:
            self.main_program, self.startup_program = made.get_pserver_programs(own)


fleet = DistributedTranspiler()


class TranspilerOptimizer(DistributedOptimizer):
    """Makes the programs of a trainer or of a server of it."""

    def __init__(self, optimizer, strategy=None):
        super().__init__(optimizer, strategy_of(strategy))

    def minimize(self, losses, scopes=None, startup_programs=None, parameter_list=None, no_grad_set=None):
        loss, startup = one_loss(losses), one_startup(startup_programs)
        result = self._optimizer.minimize(loss, startup, parameter_list, no_grad_set)
        fleet._transpile(self, loss.block.program, startup)
        return result


__all__ += ['distributed_strategy']
