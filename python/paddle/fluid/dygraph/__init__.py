"""Dynamic mode, which there is not: its names can be imported and subclassed, and using one says so.

So files that hold both kinds of programs run as long as they keep to the static one.
"""
import contextlib
import sys
import types

_TEXT = ('Trireme runs static programs only: there is no dynamic mode. Build a Program and run it '
         'with an Executor')

_CLASSES = {
    'nn': ['BatchNorm', 'BilinearTensorProduct', 'Conv2D', 'Conv2DTranspose', 'Conv3D', 'Conv3DTranspose', 'Dropout',
           'Embedding', 'GRUUnit', 'GroupNorm', 'InstanceNorm', 'LayerNorm', 'Linear', 'NCE', 'PRelu', 'Pool2D',
           'SpectralNorm', 'TreeConv', 'BCELoss', 'L1Loss', 'MSELoss', 'NLLLoss', 'FC'],
    'layers': ['Layer'],
    'container': ['LayerList', 'ParameterList', 'Sequential'],
    'learning_rate_scheduler': ['CosineDecay', 'ExponentialDecay', 'InverseTimeDecay', 'LambdaDecay',
                                'LearningRateDecay', 'LinearLrWarmup', 'MultiStepDecay', 'NaturalExpDecay',
                                'NoamDecay', 'PiecewiseDecay', 'PolynomialDecay', 'ReduceLROnPlateau', 'StepDecay'],
    'parallel': ['DataParallel', 'ParallelEnv', 'Env', 'ParallelStrategy'],
    'jit': ['TracedLayer'],
    'dygraph_to_static': ['ProgramTranslator'],
    'backward_strategy': ['BackwardStrategy'],
    'tracer': ['Tracer'],
    'static_runner': ['StaticModelRunner']}
_FUNCTIONS = {
    'base': ['enable_dygraph', 'enable_imperative', 'grad', 'no_grad', 'to_variable'],
    'checkpoint': ['load_dygraph', 'save_dygraph'],
    'jit': ['declarative', 'dygraph_to_static_func'],
    'parallel': ['prepare_context'],
    'varbase_patch_methods': ['monkey_patch_varbase'],
    'parallel_helper': []}


def _refusal(name, is_class):
    def refuse(*args, **kwargs):
        raise NotImplementedError(f'fluid.dygraph.{name}: {_TEXT}')
    refuse.__name__ = '__init__' if is_class else name
    refuse.__doc__ = f'{name} needs dynamic mode.'
    return type(name, (), {'__init__': refuse, '__doc__': refuse.__doc__}) if is_class else refuse


@contextlib.contextmanager
def guard(place=None):
    raise NotImplementedError(f'fluid.dygraph.guard: {_TEXT}')
    yield


def enabled():
    return False


def disable_dygraph():
    """Static mode is the only one."""


disable_imperative = disable_dygraph


def _make_modules():
    """paddle.fluid.dygraph.nn and the others, which hold what programs import from there."""
    for names, is_class in ((_CLASSES, True), (_FUNCTIONS, False)):
        for module, members in names.items():
            full = f'{__name__}.{module}'
            made = sys.modules.setdefault(full, types.ModuleType(full, f'Dynamic mode: {module}.'))
            globals()[module] = made
            for name in members:
                refusal = _refusal(name, is_class)
                setattr(made, name, refusal)
                globals()[name] = refusal
    for thing in (guard, enabled, disable_dygraph):
        setattr(sys.modules[f'{__name__}.base'], thing.__name__, thing)


_make_modules()


def __getattr__(name):
    if name.startswith('__'):
        raise AttributeError(name)
    raise NotImplementedError(f'fluid.dygraph.{name}: {_TEXT}')
