"""Docstrings of public names: each sample of docstrings.txt is run, and every name of the main modules is described."""
import importlib.util
import os

import numpy as np
import pytest

import paddle
import paddle.fluid as fluid
from paddle import _docstrings
from paddle.doctor.names import is_of_use, named

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
spec = importlib.util.spec_from_file_location('count', os.path.join(ROOT, 'tools', 'count.py'))
count = importlib.util.module_from_spec(spec)
spec.loader.exec_module(count)
NAMES = _docstrings.entries()[0]
SAMPLES = 1355  # names with a sample, at least


@pytest.fixture(autouse=True)
def unseeded():
    """paddle.seed in a sample would count for the programs of later tests, too."""
    yield
    paddle.seed(0)


def variables(value):
    """The variables that a sample's `out` holds."""
    if isinstance(value, (list, tuple)):
        return [each for part in value for each in variables(part)]
    return [value] if isinstance(value, fluid.Variable) else []


def drawn(var, chance):
    """Something that fits: 2 where an extent is open, 3 rows in two sequences, whole numbers 0 and 1."""
    shape = [2 if extent < 0 else extent for extent in var.shape]
    kind = fluid.data_feeder.convert_dtype(var.dtype)
    if var.lod_level:
        shape[0] = 3
    array = chance.randint(0, 2, shape) if kind.startswith('int') or kind == 'bool' else chance.rand(*shape)
    array = array.astype(kind)
    lengths = [[1, 1], [1, 2]][2 - var.lod_level:] if var.lod_level else None
    return fluid.create_lod_tensor(array, lengths, fluid.CPUPlace()) if lengths else array


def run(name):
    main, startup = fluid.Program(), fluid.Program()
    startup.random_seed = 1
    with fluid.program_guard(main, startup), fluid.unique_name.guard(), fluid.scope_guard(fluid.Scope()):
        space = {}
        exec(compile(_docstrings.sample(name), name, 'exec'), space)
        wanted = variables(space.get('out'))
        if 'out' in space:
            assert wanted, 'out holds no variable'
            exe = fluid.Executor(fluid.CPUPlace())
            exe.run(startup)
            chance = np.random.RandomState(1)
            feed = {var.name: drawn(var, chance) for var in main.global_block().vars.values() if var.is_data}
            results = exe.run(main, feed=feed, fetch_list=wanted, return_numpy=False)
            assert len(results) == len(wanted)


def groups():
    """Names by the first letters of their modules, so that a failing sample is found and many run in one test."""
    found = {}
    for name in NAMES:
        if NAMES[name][2]:
            found.setdefault(name.rpartition('.')[0], []).append(name)
    return sorted(found.items())


@pytest.mark.parametrize('names', [names for _, names in groups()], ids=[module for module, _ in groups()])
@pytest.mark.filterwarnings('ignore')
def test_samples_run(names, tmp_path, monkeypatch, environment):
    monkeypatch.chdir(tmp_path)
    failed = []
    for name in names:
        try:
            run(name)
        except Exception as error:  # all that fail are told at once
            failed.append(f'{name}: {type(error).__name__}: {str(error)[:300]}')
    assert not failed, '\n'.join(failed)


def test_every_name_of_the_table_is_served():
    for name in NAMES:
        thing = named('paddle.' + name if name.startswith('fluid') else name)
        assert is_of_use(thing), name


def test_every_name_says_what_it_and_its_arguments_are():
    documented = count.documented()
    print(count.documented_table(documented))
    silent = [f'{module}.{name}' for module, (_, names, _, _) in documented.items() for name in names]
    lacking = [f'{module}.{name}' for module, (_, _, names, _) in documented.items() for name in names]
    assert not silent and not lacking
    # Counted once; none may lose its sample.
    assert sum(row[3] for row in documented.values()) >= SAMPLES
