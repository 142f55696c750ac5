"""How trainers and servers go on together: one class for each way."""
from paddle.fluid.strategy import BuildStrategy, ExecutionStrategy
from paddle.fluid.transpiler.distribute_transpiler import (DistributedMode, DistributeTranspilerConfig,
                                                           ServerRuntimeConfig)

__all__ = ['TrainerRuntimeConfig', 'DistributedStrategy', 'SyncStrategy', 'AsyncStrategy',
           'HalfAsyncStrategy', 'GeoStrategy', 'StrategyFactory']


class TrainerRuntimeConfig:
    """Settings of the original's background sender. Trainers here send and receive in their steps'
    own order, and have none: only the values that it would have are kept."""

    def __init__(self):
        self.runtime_configs = {}

    def get_communicator_flags(self):
        return dict(self.runtime_configs)


class DistributedStrategy:
    """What all of them have."""

    def __init__(self):
        self._program_config = DistributeTranspilerConfig()
        self._trainer_runtime_config = TrainerRuntimeConfig()
        self._server_runtime_config = ServerRuntimeConfig()
        self._execute_strategy, self._build_strategy = ExecutionStrategy(), BuildStrategy()

    def get_program_config(self):
        return self._program_config

    def set_program_config(self, config):
        """A DistributeTranspilerConfig, or a dict of its fields."""
        if isinstance(config, DistributeTranspilerConfig):
            self._program_config = config
        elif isinstance(config, dict):
            for name, value in config.items():
                setattr(self._program_config, name, value)
        else:
            raise TypeError('config must be a dict or a DistributeTranspilerConfig, got '
                            f'{type(config).__name__}')
        self.check_program_config()

    def check_program_config(self):
        """The fields that make the way what it is stay as they are."""

    def get_trainer_runtime_config(self):
        return self._trainer_runtime_config

    def set_trainer_runtime_config(self, config):
        if not isinstance(config, (dict, TrainerRuntimeConfig)):
            raise TypeError(f'config must be a dict or a TrainerRuntimeConfig, got {type(config).__name__}')
        if isinstance(config, dict):
            self._trainer_runtime_config.runtime_configs.update(config)
        else:
            self._trainer_runtime_config = config

    def get_server_runtime_config(self):
        return self._server_runtime_config

    def set_server_runtime_config(self, config):
        if not isinstance(config, ServerRuntimeConfig):
            raise TypeError(f'config must be a ServerRuntimeConfig, got {type(config).__name__}')
        self._server_runtime_config = config

    def get_execute_strategy(self):
        return self._execute_strategy

    def get_build_strategy(self):
        return self._build_strategy


class SyncStrategy(DistributedStrategy):
    """Servers update when the gradients of all trainers are there."""

    def __init__(self):
        super().__init__()
        self.check_program_config()

    def check_program_config(self):
        config = self._program_config
        config.sync_mode, config.runtime_split_send_recv = False, True
        config.half_async = config.completely_not_async = True


class AsyncStrategy(DistributedStrategy):
    """Servers update when a gradient comes."""

    def __init__(self):
        super().__init__()
        self.check_program_config()

    def check_program_config(self):
        self._program_config.sync_mode, self._program_config.runtime_split_send_recv = False, True


class HalfAsyncStrategy(DistributedStrategy):
    """The same; the threads of one trainer wait for each other."""

    def __init__(self):
        super().__init__()
        self.check_program_config()

    def check_program_config(self):
        config = self._program_config
        config.sync_mode, config.runtime_split_send_recv, config.half_async = False, True, True


class GeoStrategy(DistributedStrategy):
    """Trainers update, and push what changed every `update_frequency` steps."""

    def __init__(self, update_frequency=100):
        super().__init__()
        self._program_config.geo_sgd_need_push_nums = update_frequency
        self.check_program_config()

    def check_program_config(self):
        config = self._program_config
        config.sync_mode, config.runtime_split_send_recv, config.geo_sgd_mode = False, True, True


class StrategyFactory:
    @staticmethod
    def create_sync_strategy():
        return SyncStrategy()

    @staticmethod
    def create_async_strategy():
        return AsyncStrategy()

    @staticmethod
    def create_half_async_strategy():
        return HalfAsyncStrategy()

    @staticmethod
    def create_geo_strategy(update_frequency=100):
        return GeoStrategy(update_frequency)


def strategy_of(given):
    """What a program gives as its strategy, as one of the classes above."""
    if given is None:
        return SyncStrategy()
    if isinstance(given, DistributedStrategy):
        return given
    if not isinstance(given, DistributeTranspilerConfig):
        raise TypeError('strategy must be one of StrategyFactory or a DistributeTranspilerConfig, got '
                        f'{type(given).__name__}')
    if given.sync_mode:
        made = SyncStrategy()
    elif given.geo_sgd_mode:
        made = GeoStrategy(given.geo_sgd_need_push_nums)
    elif given.runtime_split_send_recv and not given.half_async:
        made = AsyncStrategy()
    else:
        made = HalfAsyncStrategy()
    for name in ('slice_var_up', 'split_method', 'min_block_size', 'print_log', 'wait_port'):
        setattr(made._program_config, name, getattr(given, name))
    return made


__all__ += ['DistributedMode']
