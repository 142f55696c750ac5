"""ParallelExecutor: the older face of CompiledProgram.with_data_parallel."""
import warnings

from . import core
from .compiler import BuildStrategy, CompiledProgram, ExecutionStrategy
from .executor import Executor
from .framework import default_main_program

__all__ = ['ParallelExecutor', 'ExecutionStrategy', 'BuildStrategy']


class ParallelExecutor:
    """Trains or tests on every device at once; parameters are stored once and shared."""

    def __init__(self, use_cuda, loss_name=None, main_program=None, share_vars_from=None,
                 exec_strategy=None, build_strategy=None, num_trainers=1, trainer_id=0, scope=None):
        if share_vars_from is not None and not isinstance(share_vars_from, ParallelExecutor):
            raise TypeError('share_vars_from must be a ParallelExecutor, '
                            f'got {type(share_vars_from).__name__}')
        if not isinstance(num_trainers, int) or num_trainers < 1:
            raise ValueError(f'num_trainers is {num_trainers}: it must be 1 or more')
        if trainer_id != 0 and num_trainers == 1:
            raise ValueError(f'trainer_id is {trainer_id}, but num_trainers was not given')
        if not 0 <= trainer_id < num_trainers:
            raise ValueError(f'trainer_id is {trainer_id}; with {num_trainers} trainers it must be '
                             f'from 0 to {num_trainers - 1}')
        if scope is not None and not isinstance(scope, core.Scope):
            raise TypeError(f'scope must be a Scope, got {type(scope).__name__}')
        if build_strategy is not None and not isinstance(build_strategy, BuildStrategy):
            raise TypeError('build_strategy must be a BuildStrategy, '
                            f'got {type(build_strategy).__name__}')
        build = build_strategy._handed_over()._copy() if build_strategy is not None else BuildStrategy()
        if num_trainers != 1:
            build.num_trainers = num_trainers
            build.trainer_id = trainer_id
        self._scope = scope
        self._executor = Executor(core.CUDAPlace(0) if use_cuda else core.CPUPlace())
        self._compiled = CompiledProgram(main_program or default_main_program())
        self._compiled.with_data_parallel(
            loss_name=loss_name, build_strategy=build, exec_strategy=exec_strategy,
            share_vars_from=share_vars_from._compiled if share_vars_from else None,
            places=None)
        self._compiled._device_count(self._executor.place)  # found now, as documented
        if share_vars_from is not None and scope is None:
            self._scope = share_vars_from._scope

    def run(self, fetch_list, feed=None, feed_dict=None, return_numpy=True):
        """One value per item of fetch_list, the devices' results joined along dimension 0."""
        if feed_dict is not None:
            if feed is not None:
                raise ValueError('feed and feed_dict are both given: pass feed alone')
            warnings.warn('feed_dict is the old name of feed', DeprecationWarning, stacklevel=2)
            feed = feed_dict
        return self._executor.run(self._compiled, feed=feed, fetch_list=fetch_list,
                                  scope=self._scope, return_numpy=return_numpy)

    @property
    def device_count(self):
        return self._compiled._device_count()

    def drop_local_exe_scopes(self):
        """Gives back all memory kept between runs; the next run takes it again."""
        self._compiled._engine.drop_temporaries(self._executor._engine)

    def fetch_one(self, *variables):
        """From now on these are fetched once, from the first device, not joined. Returns self."""
        self._compiled.fetch_one(*variables)
        return self

    def fetch_mean(self, *variables):
        """From now on these are fetched as their weighted mean over the devices. Returns self."""
        self._compiled.fetch_mean(*variables)
        return self

    def local_scopes(self):
        """Where each device finds its variables between runs: see CompiledProgram.local_scopes."""
        return self._compiled.local_scopes()

    def explain(self):
        """What every knob of the strategies does here, the devices and the threads."""
        return self._compiled.explain()

    def _need_create_local_exe_scopes(self):
        return self._compiled._engine.arena_bytes(self._executor._engine) == 0
