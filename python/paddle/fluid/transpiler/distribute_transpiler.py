"""DistributeTranspiler: one trained program in, the programs of a cluster out."""
import difflib
import functools
import inspect
import warnings

import _trireme as _C

from ..framework import Program, default_main_program, default_startup_program, get_flags
from .ps_dispatcher import HashName, PSDispatcher, RoundRobin

__all__ = ['DistributeTranspiler', 'DistributeTranspilerConfig', 'slice_variable',
           'same_or_split_var', 'VarBlock', 'DistributedMode', 'ServerRuntimeConfig']

_DEFAULT_ENDPOINT = '127.0.0.1:6174'


class DistributedMode:
    SYNC = 0
    ASYNC = 1
    HALF_ASYNC = 2
    GEO = 3


class VarBlock:
    """A part of a variable: name, number, elements."""

    def __init__(self, varname, offset, size):
        self.varname = varname
        self.offset = offset
        self.size = size

    def __str__(self):
        return f'{self.varname}:{self.offset}:{self.size}'


def slice_variable(var_list, slice_count, min_block_size=8192):
    """Blocks "name:number:elements" of every variable; whole rows where there are columns."""
    return _C.slice_variable(list(var_list), slice_count, min_block_size)


def same_or_split_var(p_name, var_name):
    return p_name == var_name or p_name.startswith(var_name + '.block')


class ServerRuntimeConfig:
    """Threads of a server; the defaults are the FLAGS_rpc_*_thread_num flags."""

    def __init__(self):
        threads = get_flags([f'FLAGS_rpc_{use}_thread_num' for use in ('send', 'get', 'prefetch')])
        self._rpc_send_thread_num = threads['FLAGS_rpc_send_thread_num']
        self._rpc_get_thread_num = threads['FLAGS_rpc_get_thread_num']
        self._rpc_prefetch_thread_num = threads['FLAGS_rpc_prefetch_thread_num']


class DistributeTranspilerConfig:
    """What to choose about distributed programs. Nobody writes to it but its owner."""

    slice_var_up = True
    split_method = None
    min_block_size = 8192
    enable_dc_asgd = False
    mode = 'pserver'
    print_log = False
    wait_port = True
    geo_sgd_mode = False
    geo_sgd_need_push_nums = 100
    half_async = False
    completely_not_async = False
    nccl_comm_num = 1
    use_hierarchical_allreduce = False
    hierarchical_allreduce_inter_nranks = 0
    collective_mode = None

    _sync_mode = True
    _runtime_split_send_recv = False

    def __setattr__(self, name, value):
        if not name.startswith('_') and not hasattr(type(self), name):
            near = difflib.get_close_matches(name, _FIELDS, 1)
            raise AttributeError(f'DistributeTranspilerConfig has no field {name}' +
                                 (f'; did you mean {near[0]}?' if near else ''))
        super().__setattr__(name, value)

    @property
    def sync_mode(self):
        return self._sync_mode

    @sync_mode.setter
    def sync_mode(self, value):
        if value is None:
            raise ValueError('sync_mode must be True or False, got None')
        if value and self._runtime_split_send_recv:
            raise ValueError('sync_mode is set to True while runtime_split_send_recv is True')
        self._sync_mode = bool(value)

    @property
    def runtime_split_send_recv(self):
        return self._runtime_split_send_recv

    @runtime_split_send_recv.setter
    def runtime_split_send_recv(self, value):
        if value is None:
            raise ValueError('runtime_split_send_recv must be True or False, got None')
        if value and self._sync_mode:
            raise ValueError('runtime_split_send_recv is set to True while sync_mode is True; '
                             'set sync_mode = False first')
        self._runtime_split_send_recv = bool(value)


_FIELDS = sorted(name for name in dir(DistributeTranspilerConfig) if not name.startswith('_'))


def _engine_config(config):
    made = _C.DistributeTranspilerConfig()
    for name in _FIELDS:
        if name == 'split_method':
            continue
        value = getattr(config, name)
        try:
            setattr(made, name, value)
        except TypeError:
            raise TypeError(f'DistributeTranspilerConfig.{name} is {value!r}, a '
                            f'{type(value).__name__}; its default is '
                            f'{getattr(DistributeTranspilerConfig, name, None)!r}') from None
    method = config.split_method or RoundRobin
    if not inspect.isclass(method) or not issubclass(method, PSDispatcher) or method is PSDispatcher:
        raise AssertionError('split_method must be a class derived from PSDispatcher, such as '
                             f'RoundRobin or HashName, got {method!r}')
    made.set_split_method(method.__name__ if method in (RoundRobin, HashName) else method)
    return made


def _program(program, default, what):
    if program is None:
        return default()
    if not isinstance(program, Program):
        raise TypeError(f'{what} must be a Program, got {type(program).__name__}')
    return program


def _old_keywords(transpile):
    """Takes workers= and slice_var_up=, which old documents show; the signature is today's."""
    @functools.wraps(transpile)
    def accepting(self, *args, workers=None, slice_var_up=None, **kwargs):
        if workers is not None:
            given = inspect.signature(transpile).bind_partial(self, *args, **kwargs).arguments
            if 'trainers' in given:
                raise ValueError(f'workers={workers!r} and trainers={given["trainers"]!r} are both '
                                 'given; workers is the old name of trainers')
            warnings.warn('transpile(workers=...) is the old name of trainers', stacklevel=2)
            kwargs['trainers'] = workers
        if slice_var_up is not None:
            if 'slice_var_up' in vars(self.config):
                raise ValueError(f'slice_var_up={slice_var_up!r} and config.slice_var_up='
                                 f'{self.config.slice_var_up!r} are both given')
            warnings.warn('transpile(slice_var_up=...) is old: set config.slice_var_up',
                          stacklevel=2)
            made = _engine_config(self.config)
            made.slice_var_up = bool(slice_var_up)
            self._engine = _C.DistributeTranspiler(made)
        return transpile(self, *args, **kwargs)
    return accepting


class DistributeTranspiler:
    """Rewrites a program for parameter servers (config.mode "pserver"), for ranks that
    ParallelExecutor joins ("nccl2"), or for ranks joined by ops ("collective")."""

    def __init__(self, config=None):
        if config is not None and not isinstance(config, DistributeTranspilerConfig):
            raise TypeError('config must be a DistributeTranspilerConfig, got '
                            f'{type(config).__name__}')
        self.config = config if config is not None else DistributeTranspilerConfig()
        self._server_config = None
        self._engine = _C.DistributeTranspiler(_engine_config(self.config))

    def _set_server_config(self, server_config=None):
        if server_config is None:
            server_config = ServerRuntimeConfig()
        if not isinstance(server_config, ServerRuntimeConfig):
            raise TypeError('server_config must be a ServerRuntimeConfig, got '
                            f'{type(server_config).__name__}')
        self._server_config = server_config
        self._engine.set_server_config(server_config._rpc_send_thread_num,
                                       server_config._rpc_get_thread_num,
                                       server_config._rpc_prefetch_thread_num)

    @_old_keywords
    def transpile(self, trainer_id, program=None, pservers=_DEFAULT_ENDPOINT, trainers=1,
                  sync_mode=True, startup_program=None, current_endpoint=_DEFAULT_ENDPOINT):
        """Makes program and startup_program those of a trainer or rank, in place."""
        engine, config = self._engine, self.config
        if not isinstance(trainer_id, int) or isinstance(trainer_id, bool):
            raise TypeError(f'trainer_id must be a whole number, got {trainer_id!r}')
        if isinstance(pservers, (list, tuple)):
            raise TypeError(f'pservers must be a string "ip:port,ip:port", got {pservers!r}')
        if config.mode == 'nccl2' and not isinstance(trainers, str):
            raise AssertionError('trainers must be a string "ip:port,ip:port" in nccl2 mode, got '
                                 f'{trainers!r}')
        if not isinstance(trainers, (int, str, list)):
            raise ValueError('trainers must be a number, a string or a list, got '
                             f'{type(trainers).__name__}')
        main = _program(program, default_main_program, 'program')
        startup = _program(startup_program, default_startup_program, 'startup_program')
        engine.transpile(trainer_id, main, startup, pservers, trainers, bool(sync_mode),
                         current_endpoint)
        if self._server_config is not None:
            self._set_server_config(self._server_config)
        self.trainer_id = trainer_id
        self.trainer_num = trainers
        self.origin_program = main
        self.startup_program = startup
        self.origin_startup_program = engine.origin_startup_program()
        self.pserver_endpoints = list(main._endpoints)

    def transpile_nccl2(self, *args, **kwargs):
        raise NotImplementedError('transpile_nccl2 is now config.mode = "nccl2" and '
                                  'transpile(trainer_id, trainers="ip:port,ip:port", '
                                  'current_endpoint="ip:port")')

    def get_trainer_program(self, wait_port=True):
        """The program that transpile was given. wait_port: when every server can be reached."""
        return self._engine.get_trainer_program(bool(wait_port))

    def _check_endpoint(self, endpoint):
        endpoints = getattr(self, 'pserver_endpoints', None)
        if endpoints and endpoint not in endpoints:
            raise KeyError(f'endpoint {endpoint!r} is not among pservers {endpoints}')
        return endpoint

    def get_pserver_program(self, endpoint):
        """What the server at this endpoint runs."""
        return self._engine.get_pserver_program(self._check_endpoint(endpoint))

    def get_pserver_programs(self, endpoint):
        """(main program, startup program) of the server at this endpoint."""
        return self._engine.get_pserver_programs(self._check_endpoint(endpoint))

    def get_startup_program(self, endpoint, pserver_program=None, startup_program=None):
        """Deprecated: get_pserver_programs returns both programs."""
        return self._engine.get_startup_program(self._check_endpoint(endpoint), pserver_program,
                                                startup_program)
