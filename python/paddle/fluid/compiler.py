"""CompiledProgram: a program with the strategy it is compiled by and the devices it runs on."""
import os

import _trireme as _C

from . import core
from ._places import _get_paddle_place
from .framework import IrGraph, Program, Variable
from .strategy import BuildStrategy, ExecutionStrategy

__all__ = ['CompiledProgram', 'ExecutionStrategy', 'BuildStrategy']


def not_built(name, instead):
    """A class that can be imported and named, and says what is missing when it is used."""
    def refuse(self, *args, **kwargs):
        raise NotImplementedError(f'{name} is not built yet in Trireme: {instead}')
    refuse.__name__, refuse.__qualname__ = '__init__', f'{name}.__init__'
    return type(name.rpartition('.')[2], (), {'__init__': refuse, '__doc__': f'{name}: not built yet.'})


def _source_program(program):
    """What a function that saves or loads a Program works on when it is given a CompiledProgram."""
    if isinstance(program, CompiledProgram):
        if program._of_graph:
            raise TypeError('this CompiledProgram was made from a Graph, and has no Program to save or '
                            'load: pass the Program that the Graph was made from, or use '
                            'CompiledProgram.save')
        _C.warn('a CompiledProgram is saved and loaded as the Program it was made from: its '
                'devices and strategies are not part of the files; CompiledProgram.save keeps them')
        return program._program
    return program


def _feed_of_one_step(feed, what):
    if feed is None:
        return {}
    if not isinstance(feed, dict):
        raise TypeError(f'{what} must be a dict, got {type(feed).__name__}')
    return feed


def _names(variables, what):
    variables = [variables] if isinstance(variables, (str, Variable)) else variables or []
    for variable in variables:
        if not isinstance(variable, (str, Variable)):
            raise TypeError(f'{what} holds a {type(variable).__name__}; its items are Variables or names')
    return [v if isinstance(v, str) else v.name for v in variables]


def _checked(value, kind, what):
    if value is not None and not isinstance(value, kind):
        raise TypeError(f'{what} must be a {kind.__name__}, got {type(value).__name__}')
    return value


def _engine_of(executor):
    from .executor import Executor
    if not isinstance(executor, Executor):
        raise TypeError(f'executor must be an Executor, got {type(executor).__name__}')
    return executor._engine


def _places(places):
    if places is None:
        return []  # decided at the first run, from the environment
    if not isinstance(places, (list, tuple)):
        places = [places]
    if not places:
        raise ValueError('places is an empty list: give at least one place, or None')
    return [_get_paddle_place(place) for place in places]


class CompiledProgram:
    """Runs through Executor.run; with_data_parallel puts it on several devices."""

    def __init__(self, program_or_graph, build_strategy=None):
        if isinstance(program_or_graph, IrGraph):
            program_or_graph = program_or_graph.graph
        of_graph = isinstance(program_or_graph, core.Graph)
        if of_graph:
            program_or_graph = program_or_graph._program
        if isinstance(program_or_graph, CompiledProgram):
            raise TypeError('program_or_graph must be a Program or a Graph, got a CompiledProgram: '
                            'compile its Program again, or call with_data_parallel on it')
        if not isinstance(program_or_graph, Program):
            raise TypeError('program_or_graph must be a Program or a Graph, '
                            f'got {type(program_or_graph).__name__}')
        if build_strategy is not None and not isinstance(build_strategy, BuildStrategy):
            raise TypeError('build_strategy must be a BuildStrategy, '
                            f'got {type(build_strategy).__name__}')
        self._take(program_or_graph, build_strategy is not None,
                   _C.CompiledProgram(program_or_graph, build_strategy or BuildStrategy()))
        self._of_graph = of_graph
        if build_strategy is not None:
            build_strategy._handed_over()

    def _take(self, program, build_strategy_given, engine):
        self._program = program
        self._build_strategy_given = build_strategy_given
        self._engine = engine
        self._share_vars_from = None  # kept alive with its parameters
        self._ran_by = None
        self._from_environment = False
        self._last_scope = None
        self._merge = {}  # name -> 'one' or 'mean'
        self._predictor = None
        self._of_graph = False
        self._places = None  # as tools look for them: those given, or what _compile has found

    @property
    def _is_inference(self):
        return self._predictor is not None

    @property
    def _is_plain(self):
        """Whether a run needs nothing but the engine."""
        return not (self._is_inference or self._from_environment or self._share_vars_from)

    @property
    def _is_data_parallel(self):
        return self._engine.is_data_parallel

    def with_data_parallel(self, loss_name=None, build_strategy=None, exec_strategy=None,
                           share_vars_from=None, places=None):
        """Runs on every place, each with its share of the batch. Returns self."""
        if loss_name is not None and not isinstance(loss_name, str):
            raise TypeError(f'loss_name must be a str, got {type(loss_name).__name__}: '
                            'pass the name of the loss, loss.name')
        assert not self._is_inference, 'a predictor cannot run on several devices too'
        if build_strategy is not None and not isinstance(build_strategy, BuildStrategy):
            raise TypeError('build_strategy must be a BuildStrategy, '
                            f'got {type(build_strategy).__name__}')
        if exec_strategy is not None and not isinstance(exec_strategy, ExecutionStrategy):
            raise TypeError('exec_strategy must be an ExecutionStrategy, '
                            f'got {type(exec_strategy).__name__}')
        if share_vars_from is not None and not isinstance(share_vars_from, CompiledProgram):
            raise TypeError('share_vars_from must be a CompiledProgram, '
                            f'got {type(share_vars_from).__name__}')
        if self._build_strategy_given and build_strategy is not None:
            _C.warn('build_strategy was given to CompiledProgram and to with_data_parallel; '
                    'the one of with_data_parallel is used')
        self._engine.with_data_parallel(loss_name or '', build_strategy,
                                        exec_strategy or ExecutionStrategy(),
                                        share_vars_from._engine if share_vars_from else None,
                                        _places(places))
        for strategy in (build_strategy, exec_strategy):
            if strategy is not None:
                strategy._handed_over()
        self._share_vars_from = share_vars_from
        self._from_environment = places is None
        self._places = _places(places) or None  # None: the environment decides
        return self

    def _compile(self, scope, place):
        """What is decided before the first run: the places. Plans are made for the feeds and fetches of a run."""
        place, count = _get_paddle_place(place), self._device_count(_get_paddle_place(place))
        if self._places is None:
            cards = self._is_data_parallel and place.is_gpu_place()
            self._places = [core.CUDAPlace(card) for card in range(count)] if cards else [place] * count
        return self

    def with_inference_optimize(self, config):
        """Executor.run then takes a list of PaddleTensors and gives those of a predictor. Returns self."""
        from . import inference
        assert isinstance(config, (inference.NativeConfig, inference.AnalysisConfig)), \
            f'config must be a NativeConfig or an AnalysisConfig, got {type(config).__name__}'
        assert not self._is_data_parallel, 'a program on several devices cannot be a predictor too'
        self._predictor = inference.create_paddle_predictor(config)
        return self

    _with_inference_optimize = with_inference_optimize

    def fetch_one(self, *variables):
        """From now on these are fetched once, from the first device, not joined. Returns self."""
        return self._fetch_as('one', variables)

    def fetch_mean(self, *variables):
        """From now on these are fetched as the mean over the devices, each weighted by its share of
        the batch: a mean loss comes out as one device computes it. Returns self."""
        return self._fetch_as('mean', variables)

    def _fetch_as(self, how, variables):
        for variable in variables:
            if not isinstance(variable, (str, Variable)):
                raise TypeError('fetch_one and fetch_mean take Variables or names, '
                                f'got {type(variable).__name__}')
            self._merge[variable if isinstance(variable, str) else variable.name] = how
        return self

    def local_scopes(self):
        """Where each device finds its variables between runs. What devices write apart from each
        other is merged at the end of a run, so all find it in the scope of the last run."""
        scope = self._last_scope or _C.global_scope()
        return [scope] * self._device_count()

    def explain(self):
        """What every knob of the strategies does here, the devices and the threads; after a run
        also the plan: passes, memory with its largest owners, kernels."""
        return self._engine.explain(self._ran_by)

    def view(self, path, feed=None, fetch_list=None, steps=5):
        """Writes a page (HTML) that shows the program, what each pass made of it, the plan, its memory
        and the strategies: after a run. With feed it also times steps on copies of the variables."""
        from ..viewer import reports
        if self._ran_by is None:
            raise RuntimeError('the program has not run yet: run it once, then view it')
        return reports.write_view(self, path, _feed_of_one_step(feed, 'feed') if feed is not None else None,
                                  _names(fetch_list, 'fetch_list'), steps)

    def save(self, path, scope=None, parameters=True, proof_feed=None, proof_fetch_list=None):
        """Writes program, strategies, the shapes it has run with, digests of its plans and the
        variables of `scope` into one file. parameters=False leaves their values out and keeps their
        hashes. With proof_fetch_list one step on proof_feed is run on copies of the variables and
        stored with its results, for load(prove=True)."""
        if self._is_inference:
            raise RuntimeError('a predictor is not saved: its model has files of its own')
        if proof_feed is not None and not proof_fetch_list:
            raise ValueError('proof_feed is given, but proof_fetch_list names no result to store')
        _C.save_compiled(self._engine, os.fspath(path), _checked(scope, core.Scope, 'scope'),
                         self._ran_by, _checked(parameters, bool, 'parameters'),
                         _feed_of_one_step(proof_feed, 'proof_feed'),
                         _names(proof_fetch_list, 'proof_fetch_list'))

    @staticmethod
    def load(path, executor, scope=None, prove=False):
        """The CompiledProgram in a file that save wrote, planned again for `executor`; its
        variables go into `scope`. What differs from where it was saved is warned about: another
        version, another machine, another plan. prove=True runs the stored step and refuses a
        program whose numbers are not the stored ones."""
        engine, program, notes, difference = _C.load_compiled(
            os.fspath(path), _engine_of(executor), _checked(scope, core.Scope, 'scope'), prove)
        for note in notes:
            _C.warn(f'{path}: {note}')
        if difference is not None and not difference <= 1e-5:
            raise RuntimeError(f'{path}: the stored step gives other numbers here, by {difference}')
        loaded = CompiledProgram.__new__(CompiledProgram)
        loaded._take(program, True, engine)
        loaded._ran_by = executor._engine  # its plans are made
        return loaded

    def memory(self, executor, feed=None, fetch_list=None, scope=None):
        """How many bytes a step on feeds of these shapes needs, before it has run; the values of
        feed do not matter. arena: what lies between the ops of the step, of which at most `live` is
        used at once; parameters: the persistable variables; feeds: what is fed; total: all of it;
        exact: False where it is the least that a step takes: what loops, branches, shapes that depend
        on values and the update of several devices need is known when they have run once.
        explain() then shows the plan with its largest owners."""
        engine = _engine_of(executor)
        self._device_count(executor.place)
        sizes = self._engine.memory(engine, _feed_of_one_step(feed, 'feed'),
                                    _names(fetch_list, 'fetch_list'), _checked(scope, core.Scope, 'scope'))
        self._ran_by = engine
        return sizes

    def _device_count(self, place=None):
        """With places=None the environment decides, by the kind of the executor's place."""
        place = place or core.CPUPlace()
        if self._is_data_parallel and self._from_environment and place.is_cpu_place():
            _C.cpu_num()  # absent, CPU_NUM becomes 1 in this process's environment, as documented
        return self._engine.devices(place)

    def _run(self, executor, feed, names, scope, return_numpy, return_merged, use_prune):
        if self._is_inference and not isinstance(feed, dict):
            if names:
                _C.warn('fetch_list is not used: a predictor gives the outputs of its model, '
                        f'{self._predictor.get_output_names()}')
            return self._predictor.run(feed)
        if self._from_environment:
            self._device_count(executor.place)
            self._from_environment = False  # the engine has its places now
        self._ran_by = executor._engine
        if scope is None:
            scope = _C.global_scope()
        if self._share_vars_from is not None:
            scope = self._scope_to_use(scope)
        results = self._engine.run(executor._engine, feed if type(feed) is dict else self._checked_feed(feed),
                                   names, scope, return_numpy, return_merged, use_prune, self._merge)
        self._last_scope = scope
        return results

    def _scope_to_use(self, scope):
        """With share_vars_from, the scope where that program ran."""
        source = self._share_vars_from
        if source._last_scope is None or source._last_scope is scope:
            return scope
        _C.warn('share_vars_from ran in another scope than this run asks for: its scope, with '
                'the parameters to share, is used')
        return source._last_scope

    def _checked_feed(self, feed):
        """What is not simply a dict."""
        if feed is None:
            return {}
        if isinstance(feed, dict):
            return feed
        if not isinstance(feed, (list, tuple)):
            raise ValueError(f'feed must be a dict or a list of dicts, got {type(feed).__name__}')
        for i, one in enumerate(feed):
            if not isinstance(one, dict):
                raise TypeError(f'feed is a list whose element {i} is a {type(one).__name__}; each '
                                'element must be a dict')
        return feed[0] if len(feed) == 1 and not self._is_data_parallel else feed

