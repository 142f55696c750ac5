"""Every test builds into programs, names and a scope of its own."""
import pytest

import paddle.fluid as fluid


@pytest.fixture(autouse=True)
def fresh():
    main, startup = fluid.Program(), fluid.Program()
    with fluid.unique_name.guard(), fluid.program_guard(main, startup), \
            fluid.scope_guard(fluid.Scope()):
        yield main, startup


@pytest.fixture
def exe():
    return fluid.Executor(fluid.CPUPlace())
