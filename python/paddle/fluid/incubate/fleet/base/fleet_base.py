"""What fleets of parameter servers and of ranks have in common."""
import abc

from paddle.fluid.executor import Executor
from paddle.fluid.framework import default_startup_program

from .role_maker import PaddleCloudRoleMaker, RoleMakerBase

__all__ = ['Fleet', 'DistributedOptimizer', 'Mode']


class Mode:
    TRANSPILER = 1
    PSLIB = 2
    COLLECTIVE = 3


class Fleet(metaclass=abc.ABCMeta):
    """This process's part in a job: made by init, asked by its program."""

    def __init__(self, mode):
        self._is_initialized, self._mode = False, mode
        self._optimizer, self._role_maker, self._executor = None, None, None
        self.main_program = self.startup_program = None
        self._origin_main_program = self._origin_startup_program = None

    def init(self, role_maker=None):
        """Takes who this process is from the role maker; None: from the environment."""
        from paddle.fluid import core
        if role_maker is None:
            role_maker = PaddleCloudRoleMaker(is_collective=self._mode == Mode.COLLECTIVE)
        if not isinstance(role_maker, RoleMakerBase):
            raise TypeError(f'role_maker must be a RoleMaker, got {type(role_maker).__name__}')
        self._executor = Executor(core.CPUPlace())
        self._role_maker = role_maker
        role_maker.generate_role()
        self._is_initialized = True

    def _role(self):
        if self._role_maker is None:
            raise RuntimeError('call fleet.init(role_maker) first')
        return self._role_maker

    def is_first_worker(self):
        return self._role().is_first_worker()

    def worker_index(self):
        return self._role().worker_index()

    def worker_num(self):
        return self._role().worker_num()

    def is_worker(self):
        return self._role().is_worker()

    def server_num(self):
        return self._role().server_num()

    def server_index(self):
        return self._role().server_index()

    def is_server(self):
        return self._role().is_server()

    def worker_endpoints(self, to_string=False):
        all_of_them = self._role().get_trainer_endpoints()
        return ','.join(all_of_them) if to_string else all_of_them

    def server_endpoints(self, to_string=False):
        all_of_them = self._role().get_pserver_endpoints()
        return ','.join(all_of_them) if to_string else all_of_them

    def split_files(self, files):
        """The part of the list that is this trainer's: in one piece, the first ones have one more."""
        if not isinstance(files, list):
            raise TypeError(f'files must be a list, got {type(files).__name__}')
        number, count = self.worker_index(), self.worker_num()
        share, more = divmod(len(files), count)
        begin = number * share + min(number, more)
        return files[begin:begin + share + (number < more)]

    def barrier_worker(self):
        """Waits until all trainers have come here."""
        self._role().barrier_worker()

    def all_reduce_worker(self, input, output):
        """output becomes the sum of all trainers' input; both are arrays."""
        self._role().all_reduce_worker(input, output)

    @property
    def _origin_program(self):
        return self._origin_main_program

    @abc.abstractmethod
    def distributed_optimizer(self, optimizer, strategy=None):
        """The optimizer whose minimize also makes this process's programs."""

    def _check_executor(self, executor):
        if not isinstance(executor, Executor):
            raise TypeError(f'executor must be a fluid.Executor, got {type(executor).__name__}')

    def init_worker(self):
        raise NotImplementedError('init_worker belongs to fleets with parameter servers')

    def init_server(self, model_dir=None):
        raise NotImplementedError('init_server belongs to fleets with parameter servers')

    def run_server(self):
        raise NotImplementedError('run_server belongs to fleets with parameter servers')

    def stop_worker(self):
        raise NotImplementedError('stop_worker belongs to fleets with parameter servers')


class DistributedOptimizer(metaclass=abc.ABCMeta):
    """An optimizer, and what is done to its programs behind it."""

    def __init__(self, optimizer, strategy=None):
        if not hasattr(optimizer, 'minimize'):
            raise TypeError(f'optimizer must be an Optimizer, got {type(optimizer).__name__}')
        self._optimizer, self._strategy = optimizer, strategy

    @property
    def backward(self):
        """Of the optimizer inside, as is apply_gradients: fleets change programs in minimize alone."""
        return self._optimizer.backward

    @property
    def apply_gradients(self):
        return self._optimizer.apply_gradients

    @abc.abstractmethod
    def minimize(self, losses, scopes=None, startup_programs=None, parameter_list=None, no_grad_set=None):
        """Makes gradients, updates, and the programs of this process."""


def one_loss(losses):
    """fleets take one loss; programs may write it as a list of one."""
    if isinstance(losses, (list, tuple)):
        if len(losses) != 1:
            raise ValueError(f'minimize is given {len(losses)} losses: give one')
        return losses[0]
    return losses


def one_startup(startup_programs):
    if isinstance(startup_programs, (list, tuple)):
        if len(startup_programs) != 1:
            raise ValueError(f'minimize is given {len(startup_programs)} startup programs: give one')
        startup_programs = startup_programs[0]
    return startup_programs or default_startup_program()
