"""An error on one device ends the run, is the one that is raised, and leaves all usable."""
import os
import signal
import subprocess
import sys
import threading
import time
import types

import numpy as np
import pytest

import paddle.fluid as fluid
from parallel_toy import Toy, on_places, started, value


pytestmark = pytest.mark.usefixtures('environment')
layers = fluid.layers


def lookup_net(places=2):
    ids = layers.data(name='ids', shape=[1], dtype='int64')
    loss = layers.mean(layers.fc(layers.embedding(ids, size=[20, 4]), 4))
    fluid.optimizer.SGD(0.01).minimize(loss)
    return started(), on_places(places, loss=loss), loss


@pytest.mark.parametrize('device', [0, 1, 2, 3])
def test_a_failing_op_on_one_device_ends_the_run_with_its_error(device):
    exe, program, loss = lookup_net(4)
    good = np.arange(8).reshape(8, 1)
    first, = exe.run(program, feed={'ids': good}, fetch_list=[loss])
    weights = value('fc_0.w_0')
    bad = good.copy()
    bad[2 * device] = 50
    with pytest.raises(ValueError, match='id 50 .*') as error:
        exe.run(program, feed={'ids': bad}, fetch_list=[loss])
    assert 'lookup_table' in str(error.value)
    assert 'test_parallel_errors.py' in str(error.value)
    np.testing.assert_array_equal(value('fc_0.w_0'), weights)  # a failed step changes no parameter
    again, = exe.run(program, feed={'ids': good}, fetch_list=[loss])
    assert (again < first).any()


def test_a_failing_python_op_ends_the_run():
    x = layers.data(name='x', shape=[1], dtype='float32')
    out = fluid.default_main_program().current_block().create_var(name='out', dtype='float32', shape=[-1, 1])

    def check(value_):
        if np.array(value_).max() > 5:
            raise ZeroDivisionError('too much')
        return value_
    layers.py_func(check, x, out)
    program = fluid.CompiledProgram(fluid.default_main_program()).with_data_parallel(
        places=[fluid.CPUPlace()] * 2)
    exe = fluid.Executor(fluid.CPUPlace())
    with pytest.raises(Exception, match='too much'):
        exe.run(program, feed={'x': np.array([[1], [9]], 'float32')}, fetch_list=[out])
    found, = exe.run(program, feed={'x': np.array([[1], [2]], 'float32')}, fetch_list=[out])
    np.testing.assert_array_equal(found, [[1], [2]])


def test_an_error_ends_the_loops_of_other_devices():
    """The second device would turn for minutes; it ends with the first one's error."""
    ids = layers.data(name='ids', shape=[1], dtype='int64')
    turns = layers.reduce_sum(layers.data(name='turns', shape=[1], dtype='int64'))
    i = layers.fill_constant([1], 'int64', 0)
    again = layers.less_than(i, turns)
    loop = layers.While(again)
    with loop.block():
        layers.increment(i, 1)
        layers.less_than(i, turns, cond=again)
    out = layers.embedding(ids, size=[20, 4])
    exe, program = started(), on_places(2)
    errors, scope = [], fluid.global_scope()

    def work(bad, count):
        try:
            exe.run(program, feed={'ids': np.array([[bad], [1]]), 'turns': np.array([[0], [count]])},
                    fetch_list=[out, i], scope=scope)
        except ValueError as error:
            errors.append(str(error))
    run = threading.Thread(target=work, args=(50, 10**10), daemon=True)
    run.start()
    run.join(timeout=120)
    assert not run.is_alive()
    assert len(errors) == 1 and 'id 50' in errors[0]
    work(3, 5)  # all can be used again
    assert len(errors) == 1


def test_a_program_that_was_not_started_says_so():
    toy = Toy()
    with pytest.raises(RuntimeError, match='run the startup program first'):
        toy.run(toy.parallel(), scope=fluid.Scope())


def test_a_closed_executor_is_refused():
    toy = Toy()
    program = toy.parallel()
    toy.exe.close()
    with pytest.raises(RuntimeError, match='closed'):
        toy.run(program)


def test_threads_may_run_test_programs_side_by_side():
    toy = Toy()
    program = toy.parallel(program=toy.test_program)
    expected, = toy.run(program)
    wrong = []

    def work():
        for _ in range(20):
            if not np.array_equal(toy.run(program)[0], expected):
                wrong.append(1)
    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_an_error_does_not_wait_for_the_other_devices():
    """The other devices stop at their next op."""
    x = layers.data(name='x', shape=[1], dtype='float32')
    block = fluid.default_main_program().current_block()
    failed, later = [], []

    def slow(value_):
        if np.array(value_)[0, 0] > 5:
            failed.append(1)
            raise ZeroDivisionError('first')
        later.extend(failed)
        time.sleep(0.005)
        return value_
    for i in range(50):
        out = block.create_var(name=f'out{i}', dtype='float32', shape=[-1, 1])
        layers.py_func(slow, x, out)
        x = out
    program = fluid.CompiledProgram(fluid.default_main_program()).with_data_parallel(
        places=[fluid.CPUPlace()] * 4)
    exe = fluid.Executor(fluid.CPUPlace())
    with pytest.raises(Exception, match='first'):
        exe.run(program, feed={'x': np.array([[9], [1], [1], [1]], 'float32')}, fetch_list=[x])
    assert len(later) <= 3  # at most the op that each of the others was at


@pytest.fixture
def held():
    """A program that stands still in a Python op of another thread until the test lets it go."""
    inside, go_on = threading.Event(), threading.Event()

    def stand_still(x):
        inside.set()
        go_on.wait(20)
        return np.array(x)

    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup):
        x = fluid.data('x', [None, 4])
        loss = fluid.layers.mean(fluid.layers.fc(x, 3))
        fluid.optimizer.SGD(0.1).minimize(loss)
        out = main.current_block().create_var(name='out', dtype='float32', shape=[-1, 4])
        fluid.layers.py_func(stand_still, x, out)
    exe, scope = fluid.Executor(fluid.CPUPlace()), fluid.Scope()
    exe.run(startup, scope=scope)
    feed = {'x': np.ones((4, 4), 'float32')}
    compiled = fluid.CompiledProgram(main).with_data_parallel(loss_name=loss.name, places=[fluid.CPUPlace()] * 2)

    def start(program):
        thread = threading.Thread(target=exe.run, args=(program,), kwargs=dict(feed=feed, scope=scope))
        thread.start()
        assert inside.wait(20)
        return thread

    yield types.SimpleNamespace(main=main, startup=startup, compiled=compiled, loss=loss, exe=exe, scope=scope,
                                feed=feed, start=start, go_on=go_on)
    go_on.set()


@pytest.mark.parametrize('parallel', [False, True])
def test_a_child_forked_during_a_run_is_told_and_goes_on_elsewhere(held, parallel):
    program = held.compiled if parallel else held.main
    thread = held.start(program)
    child = os.fork()
    if child == 0:
        signal.alarm(20)  # a child that hangs ends
        try:
            with pytest.raises(RuntimeError, match='forked while another thread was running'):
                held.exe.run(program, feed=held.feed, scope=held.scope)
            held.go_on.set()
            fresh = fluid.Scope()
            held.exe.run(held.startup, scope=fresh)
            held.exe.run(program, feed=held.feed, fetch_list=[held.loss], scope=fresh)
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    held.go_on.set()
    thread.join(20)
    held.exe.run(program, feed=held.feed, scope=held.scope)


@pytest.fixture
def press_ctrl_c():
    """Sends the signal in a moment, also where tests run in the background and it is ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    yield timer.start
    timer.join()
    signal.signal(signal.SIGINT, before)


def test_ctrl_c_ends_the_wait_for_another_run(held, press_ctrl_c):
    thread = held.start(held.main)
    press_ctrl_c()
    with pytest.raises(KeyboardInterrupt):
        held.exe.run(held.main, feed=held.feed, scope=held.scope)
    held.go_on.set()
    thread.join(20)
    held.exe.run(held.main, feed=held.feed, scope=held.scope)


def test_ctrl_c_ends_a_check_of_passes(press_ctrl_c):
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup):
        i = fluid.layers.fill_constant([1], 'int64', 0)
        n = fluid.layers.fill_constant([1], 'int64', 10 ** 7)
        going_on = fluid.layers.less_than(i, n)
        loop = fluid.layers.While(going_on)
        with loop.block():
            fluid.layers.increment(i)
            fluid.layers.less_than(i, n, cond=going_on)
    press_ctrl_c()
    with pytest.raises(KeyboardInterrupt):
        fluid.Executor(fluid.CPUPlace()).check_passes(main)


def test_the_process_ends_while_daemon_threads_are_in_a_run():
    source = '''
import threading, time
import numpy as np
import paddle.fluid as fluid
x = fluid.data('x', [None, 4])
loss = fluid.layers.mean(fluid.layers.fc(x, 3))
fluid.Executor().run(fluid.default_startup_program())
main = fluid.default_main_program()
def work():
    exe = fluid.Executor()
    while True:
        exe.run(main, feed={'x': np.ones((200, 4), 'float32')}, fetch_list=[loss])
for _ in range(3):
    threading.Thread(target=work, daemon=True).start()
time.sleep(0.1)
'''
    for _ in range(3):
        done = subprocess.run([sys.executable, '-c', source], capture_output=True, text=True,
                              env={**os.environ, 'PYTHONPATH': os.pathsep.join(sys.path)}, timeout=60)
        assert done.returncode == 0, done.stderr
