"""Every test builds into programs, names and a scope of its own, and starts from a seed."""
import os
import random
import sys
import time

import numpy as np
import pytest

import paddle.fluid as fluid

SEED = int(os.environ.get('TRIREME_TEST_SEED', time.time() % 1000000007))


@pytest.fixture(autouse=True)
def seeded():
    """What tests draw without a generator of their own. Shown when a test fails."""
    print(f'seed {SEED} (repeat with TRIREME_TEST_SEED={SEED})')
    np.random.seed(SEED)
    random.seed(SEED)


@pytest.fixture(autouse=True)
def fresh():
    main, startup = fluid.Program(), fluid.Program()
    startup.random_seed = 1  # some nets would start next to the best there is, and seem not to learn
    with fluid.unique_name.guard(), fluid.program_guard(main, startup), \
            fluid.scope_guard(fluid.Scope()):
        yield main, startup


@pytest.fixture
def exe():
    return fluid.Executor(fluid.CPUPlace())


@pytest.fixture
def environment(monkeypatch):
    """CPU_NUM is not set before and not after; programs print as in 1.8, which enable_static ends."""
    monkeypatch.delenv('CPU_NUM', raising=False)
    monkeypatch.setattr(fluid.framework, '_print_as_2_4', False)
    yield
    os.environ.pop('CPU_NUM', None)


def _counts():
    """How the recorded cases of the original, and the examples on a device, came out in this process."""
    lines = []
    module = sys.modules.get('test_examples')
    if module is not None and module.equal:
        lines.append(f'hostgpu: {len(module.equal)} of {len(module.CASES)} ways to run the '
                     'examples say what they say on the CPU')
    module = sys.modules.get('test_transpiled_programs')
    if module is not None and module.counts:
        kinds = ', '.join(f'{module.counts[kind]} {kind}'
                          for kind in ('equal', 'on the page of departures', 'different'))
        lines.append(f'transpiled programs of the original: {kinds}')
    module = sys.modules.get('test_original')
    if module is not None and module.counts:
        kinds = ', '.join(f'{module.counts[kind]} {kind}' for kind in module.replay.KINDS)
        lines.append(f'cases of the original: {kinds}')
    return lines


_of_workers = []


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node, error):
    """Where pytest-xdist shares files out over processes, each gives its counts to the one that prints."""
    _of_workers.extend(getattr(node, 'workeroutput', {}).get('counts', []))


def pytest_sessionfinish(session):
    if hasattr(session.config, 'workeroutput'):
        session.config.workeroutput['counts'] = _counts()


def pytest_terminal_summary(terminalreporter):
    for line in _counts() + _of_workers:
        terminalreporter.write_line(line)
