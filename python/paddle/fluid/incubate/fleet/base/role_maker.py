"""What this process is: a trainer or a parameter server, its number, and where the others are."""
import os

from paddle.distributed import environment

__all__ = ['Role', 'RoleMakerBase', 'MPISymetricRoleMaker', 'UserDefinedRoleMaker',
           'UserDefinedCollectiveRoleMaker', 'PaddleCloudRoleMaker', 'GeneralRoleMaker']


class Role:
    WORKER = 1
    SERVER = 2
    XPU = 3


class RoleMakerBase:
    """Says who is who. A subclass fills the fields below in generate_role."""

    def __init__(self):
        self._worker_endpoints, self._server_endpoints = [], []
        self._role, self._current_id, self._trainers_num = Role.WORKER, 0, None
        self._role_is_generated = False

    def generate_role(self):
        self._role_is_generated = True

    def _known(self):
        if not self._role_is_generated:
            self.generate_role()
        return self

    def is_worker(self):
        return self._known()._role == Role.WORKER

    def is_server(self):
        return self._known()._role == Role.SERVER

    def is_first_worker(self):
        return self.is_worker() and self._current_id == 0

    def worker_num(self):
        known = self._known()
        return known._trainers_num if known._trainers_num is not None else len(known._worker_endpoints)

    def server_num(self):
        return len(self._known()._server_endpoints)

    def worker_index(self):
        return self._known()._current_id

    def server_index(self):
        return self._known()._current_id

    def role_id(self):
        return self._known()._current_id

    def get_trainer_endpoints(self):
        return self._known()._worker_endpoints

    def get_pserver_endpoints(self):
        return self._known()._server_endpoints

    def get_current_endpoint(self):
        mine = self._server_endpoints if self.is_server() else self._worker_endpoints
        return mine[self._current_id] if self._current_id < len(mine) else ''

    def to_string(self):
        return (f'role: {self._role}, current_id: {self._current_id}, worker_endpoints: '
                f'{self._worker_endpoints}, server_endpoints: {self._server_endpoints}')

    def barrier_worker(self):
        """Waits until all trainers have come here."""
        from paddle.distributed import barrier, init_parallel_env
        if self.worker_num() == 1:
            return
        if len(self._worker_endpoints) != self.worker_num():
            raise NotImplementedError('barrier_worker: trainers of parameter servers have no endpoints of '
                                      'their own to meet at: set PADDLE_TRAINER_ENDPOINTS')
        init_parallel_env()
        barrier()

    def all_reduce_worker(self, input, output):
        """output becomes the sum of all trainers' input; both are arrays."""
        import numpy as np
        from paddle import fluid
        from paddle.distributed import all_reduce, init_parallel_env
        given = np.asarray(input)
        if self.worker_num() == 1:
            output[...] = given
            return
        init_parallel_env()
        program = fluid.Program()
        with fluid.program_guard(program, fluid.Program()):
            summed = fluid.data('input', list(given.shape), str(given.dtype))
            total = fluid.layers.assign(summed)
            all_reduce(total)
        output[...] = fluid.Executor(fluid.CPUPlace()).run(program, {'input': given}, [total])[0]


def _number(value, what):
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f'{what} must be a whole number, got {value!r}')
    return value


def _endpoint_list(value, what):
    if not isinstance(value, list) or not value:
        raise TypeError(f'{what} must be a list of "ip:port" with one at least, got {value!r}')
    if len(set(value)) != len(value):
        raise ValueError(f'{what} names an endpoint twice: {value}')
    return value


class UserDefinedRoleMaker(RoleMakerBase):
    """A process with parameter servers, as the program itself says."""

    def __init__(self, current_id=0, role=Role.WORKER, worker_num=0, server_endpoints=None):
        super().__init__()
        if role not in (Role.WORKER, Role.SERVER):
            raise TypeError(f'role must be Role.WORKER or Role.SERVER, got {role!r}')
        self._server_endpoints = _endpoint_list(server_endpoints, 'server_endpoints')
        self._current_id, self._role = _number(current_id, 'current_id'), role
        self._trainers_num = _number(worker_num, 'worker_num')
        if current_id < 0 or (role == Role.SERVER and current_id >= len(server_endpoints)):
            raise ValueError(f'current_id is {current_id}, with {len(server_endpoints)} servers')
        if worker_num <= 0:
            raise ValueError(f'worker_num is {worker_num}: it must be 1 or more')
        if role == Role.WORKER and current_id >= worker_num:
            raise ValueError(f'current_id is {current_id}, with {worker_num} workers')


class UserDefinedCollectiveRoleMaker(RoleMakerBase):
    """A rank, as the program itself says."""

    def __init__(self, current_id=0, worker_endpoints=None):
        super().__init__()
        self._worker_endpoints = _endpoint_list(worker_endpoints, 'worker_endpoints')
        self._current_id = _number(current_id, 'current_id')
        if not 0 <= current_id < len(worker_endpoints):
            raise ValueError(f'current_id is {current_id}, with {len(worker_endpoints)} workers')


class PaddleCloudRoleMaker(RoleMakerBase):
    """As the environment says that a launcher has made."""

    def __init__(self, is_collective=False, **kwargs):
        super().__init__()
        if kwargs:
            raise TypeError(f'PaddleCloudRoleMaker does not know {sorted(kwargs)}')
        self._is_collective = is_collective

    def generate_role(self):
        if self._role_is_generated:
            return
        environment.complete_environment()
        self._of_rank() if self._is_collective else self._of_servers()
        super().generate_role()

    def _of_rank(self):
        role = os.environ.get('PADDLE_TRAINING_ROLE', 'TRAINER')
        if role != 'TRAINER':
            raise ValueError(f'PADDLE_TRAINING_ROLE is {role!r}: ranks are all TRAINER')
        self._current_id = environment.whole_number('PADDLE_TRAINER_ID')
        self._worker_endpoints = environment.endpoints('PADDLE_TRAINER_ENDPOINTS')
        if not 0 <= self._current_id < len(self._worker_endpoints):
            raise ValueError(f'PADDLE_TRAINER_ID is {self._current_id}, but PADDLE_TRAINER_ENDPOINTS names '
                             f'{len(self._worker_endpoints)}')
        self._trainers_num = len(self._worker_endpoints)

    def _of_servers(self):
        self._server_endpoints = environment.endpoints('PADDLE_PSERVERS_IP_PORT_LIST')
        if not self._server_endpoints:
            raise ValueError('PADDLE_PSERVERS_IP_PORT_LIST is not in the environment: start the program with '
                             'python -m paddle.distributed.launch_ps, or set it')
        self._trainers_num = environment.whole_number('PADDLE_TRAINERS_NUM')
        self._worker_endpoints = environment.endpoints('PADDLE_TRAINER_ENDPOINTS')
        role = os.environ.get('TRAINING_ROLE', '')
        if role == 'TRAINER':
            self._role, self._current_id = Role.WORKER, environment.whole_number('PADDLE_TRAINER_ID')
        elif role == 'PSERVER':
            mine = f"{os.environ.get('POD_IP', '')}:{os.environ.get('PADDLE_PORT', '')}"
            if mine not in self._server_endpoints:
                raise ValueError(f'POD_IP:PADDLE_PORT is {mine}, which is not among '
                                 f'PADDLE_PSERVERS_IP_PORT_LIST {self._server_endpoints}')
            self._role, self._current_id = Role.SERVER, self._server_endpoints.index(mine)
        else:
            raise ValueError(f'TRAINING_ROLE is {role!r}: it must be PSERVER or TRAINER')


class GeneralRoleMaker(PaddleCloudRoleMaker):
    """The same; its files and HDFS, over which trainers of the original meet, are not needed."""

    def __init__(self, **kwargs):
        super().__init__()
        self._ignored = kwargs


class MPISymetricRoleMaker(RoleMakerBase):
    """Half of the processes on every machine are servers: the original asks MPI for that."""

    def __init__(self):
        raise NotImplementedError('MPISymetricRoleMaker needs mpi4py, which Trireme does not use: start the '
                                  'program with python -m paddle.distributed.launch_ps and take '
                                  'PaddleCloudRoleMaker()')
