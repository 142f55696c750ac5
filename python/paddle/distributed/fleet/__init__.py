"""paddle.distributed.fleet: one object over both fleets of fluid.incubate.fleet, chosen by init."""
from . import base
from .base.role_maker import PaddleCloudRoleMaker, Role, UserDefinedRoleMaker

__all__ = ['init', 'DistributedStrategy', 'PaddleCloudRoleMaker', 'UserDefinedRoleMaker', 'Role',
           'distributed_optimizer']

_chosen = None  # one of the two


class DistributedStrategy:
    """How processes train together. Fields of the original that nothing here does are refused."""

    def __init__(self):
        self.a_sync = False
        self.a_sync_configs = {'k_steps': -1}
        self.amp = False
        self.amp_configs = {'init_loss_scaling': 32768.0}
        self.recompute = False
        self.recompute_configs = {'checkpoints': []}
        self.localsgd = False
        self.sync_batch_norm = False
        self.nccl_comm_num = 1
        self.build_strategy = None
        self.execution_strategy = None
        self._known = frozenset(vars(self))

    def __setattr__(self, name, value):
        known = self.__dict__.get('_known')
        if known is not None and name not in known:
            if value in (False, None):
                return  # not asked for
            raise NotImplementedError(f'DistributedStrategy.{name} is not built yet in Trireme')
        super().__setattr__(name, value)


def init(role_maker=None, is_collective=False, strategy=None, log_level='INFO'):
    """Takes who this process is: from the role maker, or from the environment."""
    global _chosen
    if role_maker is None:
        role_maker = PaddleCloudRoleMaker(is_collective=is_collective)
    if is_collective or getattr(role_maker, '_is_collective', False) or not role_maker.get_pserver_endpoints():
        from paddle.fluid.incubate.fleet.collective import fleet
    else:
        from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler import fleet
    fleet.init(role_maker)
    _chosen = fleet
    if strategy is not None:
        _chosen._strategy_of_init = strategy


def _fleet():
    if _chosen is None:
        raise RuntimeError('call fleet.init() first')
    return _chosen


def _collective_strategy(strategy):
    from paddle.fluid.incubate.fleet.collective import DistributedStrategy as Ranks
    made = Ranks()
    if strategy.build_strategy is not None:
        made._assign(strategy.build_strategy)
    if strategy.execution_strategy is not None:
        made.exec_strategy = strategy.execution_strategy
    made.use_amp, made.use_local_sgd = strategy.amp, strategy.localsgd
    made.amp_loss_scaling = strategy.amp_configs.get('init_loss_scaling', 32768.0)
    made.forward_recompute = strategy.recompute
    made.recompute_checkpoints = strategy.recompute_configs.get('checkpoints', [])
    made.nccl_comm_num, made.sync_batch_norm = strategy.nccl_comm_num, strategy.sync_batch_norm
    return made


def _server_strategy(strategy):
    from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler import StrategyFactory as factory
    if not strategy.a_sync:
        return factory.create_sync_strategy()
    steps = strategy.a_sync_configs.get('k_steps', -1)
    return factory.create_geo_strategy(steps) if steps > 0 else factory.create_async_strategy()


def distributed_optimizer(optimizer, strategy=None):
    """The optimizer whose minimize also makes this process's programs."""
    from paddle.fluid.incubate.fleet.base.fleet_base import Mode
    fleet = _fleet()
    strategy = strategy or getattr(fleet, '_strategy_of_init', None) or DistributedStrategy()
    if isinstance(strategy, DistributedStrategy):
        ranks = fleet._mode == Mode.COLLECTIVE
        strategy = _collective_strategy(strategy) if ranks else _server_strategy(strategy)
    return fleet.distributed_optimizer(optimizer, strategy)


def distributed_model(model):
    raise NotImplementedError('fleet.distributed_model needs dynamic mode')


_SHARED = ('is_first_worker', 'worker_index', 'worker_num', 'is_worker', 'worker_endpoints', 'server_num',
           'server_index', 'server_endpoints', 'is_server', 'barrier_worker', 'init_worker', 'init_server',
           'run_server', 'stop_worker', 'save_inference_model', 'save_persistables', 'main_program',
           'startup_program', 'split_files')


def node_num():
    """On how many machines the workers are."""
    return len({endpoint.rpartition(':')[0] for endpoint in _fleet().worker_endpoints()})


def _shared(name):
    """What init() has chosen says; before, a function that asks it when it is called."""
    from paddle.fluid.incubate.fleet.collective import Collective
    if _chosen is not None or not callable(getattr(Collective, name, None)):
        return getattr(_fleet(), name)

    def ask(*args, **kwargs):
        return getattr(_fleet(), name)(*args, **kwargs)
    ask.__name__ = name
    return ask


def __getattr__(name):
    if name in _SHARED:
        return _shared(name)
    if name in ('load_model', 'save_cache_table', 'get_hybrid_communicate_group', 'meta_parallel',
                'Fleet'):
        raise NotImplementedError(f'paddle.distributed.fleet.{name} is not built yet in Trireme')
    raise AttributeError(f'module paddle.distributed.fleet has no attribute {name!r}')
