"""Which process of a job this one is: read from the environment that a launcher makes."""
import os
import re

DEFAULT_PORT = 6170

# What each launcher calls a process's number, their count, and those of its machine alone.
_LAUNCHERS = (('OMPI_COMM_WORLD_RANK', 'OMPI_COMM_WORLD_SIZE', 'OMPI_COMM_WORLD_LOCAL_SIZE'),
              ('SLURM_PROCID', 'SLURM_NTASKS', None))


def whole_number(name, default=None):
    """The number in an environment variable."""
    text = os.environ.get(name, '')
    if not text:
        if default is None:
            raise ValueError(f'{name} is not in the environment: start the program with python -m '
                             'paddle.distributed.launch, or set it')
        return default
    if not text.isdigit():
        raise ValueError(f'{name} is {text!r} in the environment: it must be a whole number')
    return int(text)


def endpoints(name):
    """The ip:port list in an environment variable; empty where it is not set."""
    return [each.strip() for each in os.environ.get(name, '').split(',') if each.strip()]


def _slurm_hosts():
    """Slurm's list of machines taken apart: "a,n[01-03,7]" names a, n01, n02, n03 and n7."""
    nodes = os.environ.get('SLURM_JOB_NODELIST', '')
    try:
        return [host for name in re.findall(r'(?:[^,\[\]]+|\[[^\]]*\])+', nodes) for host in _hosts(name)]
    except ValueError:
        raise ValueError(f'SLURM_JOB_NODELIST is {nodes!r}, which is no list of machines: set '
                         'PADDLE_TRAINER_ENDPOINTS') from None


def _hosts(name):
    before, bracket, rest = name.partition('[')
    if not bracket:
        return [name]
    numbers, _, after = rest.partition(']')
    found = []
    for each in numbers.split(','):
        first, _, last = each.partition('-')
        found += [f'{before}{number:0{len(first)}}{tail}' for number in range(int(first), int(last or first) + 1)
                  for tail in _hosts(after)]
    return found


def _endpoints_of(count, on_this_machine):
    port = whole_number('PADDLE_PORT', DEFAULT_PORT)
    if on_this_machine == count:
        return [f'127.0.0.1:{port + i}' for i in range(count)]
    hosts = _slurm_hosts()
    if not hosts or count % len(hosts):
        raise ValueError(f'{count} processes were started on several machines, whose addresses are not '
                         'in the environment: set PADDLE_TRAINER_ENDPOINTS')
    each = count // len(hosts)  # in blocks, as srun places them unless told otherwise
    return [f'{host}:{port + i}' for host in hosts for i in range(each)]


def complete_environment():
    """mpirun and srun say who a process is in their own words: the job's are added where absent."""
    if 'PADDLE_TRAINER_ID' in os.environ or 'TRAINING_ROLE' in os.environ:
        return
    for rank, size, local in _LAUNCHERS:
        if rank not in os.environ or size not in os.environ:
            continue
        count = whole_number(size)
        os.environ['PADDLE_TRAINER_ID'] = str(whole_number(rank))
        os.environ['PADDLE_TRAINERS_NUM'] = str(count)
        here = whole_number(local, 0) if local else count if len(_slurm_hosts()) == 1 else 0
        all_of_them = endpoints('PADDLE_TRAINER_ENDPOINTS') or _endpoints_of(count, here)
        if len(all_of_them) != count:
            raise ValueError(f'PADDLE_TRAINER_ENDPOINTS names {len(all_of_them)} processes, but {size} '
                             f'says {count}')
        os.environ['PADDLE_TRAINER_ENDPOINTS'] = ','.join(all_of_them)
        os.environ.setdefault('PADDLE_CURRENT_ENDPOINT', all_of_them[whole_number(rank)])
        return


class ParallelEnv:
    """This process among those that train together."""

    def __init__(self):
        complete_environment()
        self._rank = whole_number('PADDLE_TRAINER_ID', 0)
        self._world_size = whole_number('PADDLE_TRAINERS_NUM', 1)
        self._device_id = int(os.environ.get('FLAGS_selected_gpus', '0').split(',')[0] or 0)
        self._trainer_endpoints = endpoints('PADDLE_TRAINER_ENDPOINTS')
        self._current_endpoint = os.environ.get('PADDLE_CURRENT_ENDPOINT', '')

    @property
    def rank(self):
        return self._rank

    @property
    def world_size(self):
        return self._world_size

    @property
    def device_id(self):
        return self._device_id

    @property
    def current_endpoint(self):
        return self._current_endpoint

    @property
    def trainer_endpoints(self):
        return self._trainer_endpoints

    nranks, local_rank, dev_id = world_size, rank, device_id
