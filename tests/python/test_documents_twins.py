"""The numbers that examples/cpp/with_data_parallel.cc and parallel_executor.cc get too."""
import os
import re

import numpy as np
import pytest

import paddle.fluid as fluid
from parallel_toy import Toy

EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'examples', 'cpp')


def tenths(rows):
    return {'X': (np.arange(1, rows + 1) / 10).astype('float32').reshape(rows, 1)}


def in_cpp(name):
    """(what, its numbers) of every line that compares with Python."""
    with open(os.path.join(EXAMPLES, name)) as file:
        lines = re.findall(r'twins\("([^"]*)",.*?\{([^}]*)\}\)', file.read(), re.S)
    return [(what, [float(number) for number in numbers.replace('f', '').split(',')])
            for what, numbers in lines]


def net():
    toy = Toy(seed=1)
    return toy.exe, toy.loss, toy.test_program


def with_data_parallel(monkeypatch):
    exe, loss, test_program = net()
    main, places = fluid.default_main_program(), [fluid.CPUPlace()] * 2
    yield exe.run(fluid.CompiledProgram(main), feed=tenths(10), fetch_list=[loss.name])[0]
    train = fluid.CompiledProgram(main).with_data_parallel(loss_name=loss.name, places=places)
    test = fluid.CompiledProgram(test_program).with_data_parallel(share_vars_from=train, places=places)
    yield exe.run(train, feed=tenths(10), fetch_list=[loss.name])[0]
    yield exe.run(test, feed=tenths(3), fetch_list=[loss.name])[0]


def parallel_executor(monkeypatch):
    monkeypatch.setenv('CPU_NUM', '2')
    _, loss, test_program = net()
    train = fluid.ParallelExecutor(False, loss_name=loss.name)
    test = fluid.ParallelExecutor(False, main_program=test_program, share_vars_from=train)
    yield train.run([loss.name], feed=tenths(10))[0]
    yield train.run([loss.name], feed=[tenths(10), tenths(9)])[0]
    yield test.run([loss.name], feed=tenths(3))[0]
    test.drop_local_exe_scopes()
    yield test.run([loss.name], feed=tenths(3))[0]


@pytest.mark.parametrize('sample', [with_data_parallel, parallel_executor])
def test_python_and_cpp_get_the_same_numbers(sample, monkeypatch):
    expected = in_cpp(sample.__name__ + '.cc')
    found = list(sample(monkeypatch))
    assert len(found) == len(expected)
    for value, (what, numbers) in zip(found, expected):
        np.testing.assert_allclose(value, numbers, rtol=0, atol=1e-6, err_msg=what)
