"""Executor.run that goes straight to the engine when it is called again: it does what a first call does."""
import inspect

import numpy as np
import pytest

import paddle
import paddle.fluid as fluid

layers = fluid.layers
X = {'x': np.float32([[1, 2], [3, 4]])}


def net():
    out = layers.scale(fluid.data('x', [None, 2]), 2.0)
    return out, layers.mean(out)


def the_whole_way(exe, *args, **kwargs):
    """The results of a call that finds nothing to go by, and whether it left something for the next."""
    known, left = exe._calls, []

    class Listens:
        def remember(self, *what):
            left.append(what)
            known.remember(*what)
    exe._calls = Listens()
    results = exe.run(*args, **kwargs)
    exe._calls = known
    return results, len(left) == 1


def test_a_call_that_comes_again_gives_what_it_gave():
    out, mean = net()
    exe, main = fluid.Executor(), fluid.default_main_program()
    fetches = [out, mean.name]
    whole, remembered = the_whole_way(exe, main, feed=X, fetch_list=fetches)
    assert remembered
    for again in (exe.run(main, X, fetches), exe.run(program=main, feed=dict(X), fetch_list=list(fetches)),
                  exe.run(feed=X, fetch_list=fetches)):
        for one, other in zip(again, whole):
            np.testing.assert_array_equal(one, other)


def test_edits_other_fetches_and_other_programs_are_seen():
    out, mean = net()
    exe, main = fluid.Executor(), fluid.default_main_program()
    fetches = [out]
    for _ in range(3):
        assert exe.run(main, feed=X, fetch_list=fetches)[0].shape == (2, 2)
    fetches[0] = mean
    assert exe.run(main, feed=X, fetch_list=fetches)[0].tolist() == [5]
    main.global_block().ops[0]._set_attr('scale', 3.0)
    assert exe.run(main, feed=X, fetch_list=fetches)[0].tolist() == [7.5]
    assert exe.run(main, feed=X, fetch_list=fetches)[0].tolist() == [7.5]
    with fluid.program_guard(fluid.Program()):
        other, _ = net()
        for _ in range(2):
            assert exe.run(feed=X, fetch_list=[other])[0].tolist() == [[2, 4], [6, 8]]
    assert exe.run(feed=X, fetch_list=fetches)[0].tolist() == [7.5]


@pytest.mark.parametrize('compiled', [False, True])
def test_the_scope_is_the_one_of_the_call(compiled, monkeypatch):
    monkeypatch.setenv('CPU_NUM', '1')
    count = layers.create_global_var([1], 0.0, 'float32', persistable=True, name='count')
    layers.increment(count)
    exe, main = fluid.Executor(), fluid.default_main_program()
    program = fluid.CompiledProgram(main).with_data_parallel() if compiled else main
    first, second = fluid.Scope(), fluid.Scope()
    for scope in (first, second):
        with fluid.scope_guard(scope):
            exe.run(fluid.default_startup_program())
    fetches, seen = [count], []
    for scope in (first, first, first, second, first, second, second):
        with fluid.scope_guard(scope):
            seen.append(exe.run(program, feed={}, fetch_list=fetches)[0].item())
    assert seen == [1, 2, 3, 1, 4, 2, 3]


def test_errors_are_those_of_a_first_call():
    out, _ = net()
    exe, main = fluid.Executor(), fluid.default_main_program()
    exe.run(main, feed=X, fetch_list=[out])
    for feed in ({}, {'y': X['x']}, {'x': np.zeros([2, 3], 'float32')}, {'x': 'text'}):
        texts = []
        for run in (exe.run, lambda *args, **kwargs: type(exe).run.__wrapped__(exe, *args, **kwargs)):
            with pytest.raises(Exception) as error:
                run(main, feed=feed, fetch_list=[out])
            texts.append((type(error.value), str(error.value).partition('asked for at')[0]))
        assert texts[0] == texts[1]
    with pytest.raises(TypeError, match='fetch_list'):
        exe.run(main, feed=X, fetchlist=[out])
    exe.close()
    with pytest.raises(RuntimeError, match='closed'):
        exe.run(main, feed=X, fetch_list=[out])


def test_it_looks_like_the_method():
    run = fluid.Executor.run
    assert run.__name__ == 'run' and 'fetch_list' in run.__doc__
    assert list(inspect.signature(run).parameters)[:4] == ['self', 'program', 'feed', 'fetch_list']
    assert list(inspect.signature(fluid.Executor().run).parameters)[0] == 'program'


def test_a_schedule_of_2_x_is_written_before_each_run():
    x = fluid.data('x', [None, 2])
    loss = layers.mean(layers.fc(x, 1, param_attr='w', bias_attr=False))
    rate = paddle.optimizer.lr.StepDecay(1.0, step_size=1, gamma=0.5)
    optimizer = paddle.optimizer.SGD(rate)
    exe, main = fluid.Executor(), fluid.default_main_program()
    optimizer.minimize(loss)
    exe.run(fluid.default_startup_program())
    moved, fetches = [], ['w']
    before, = exe.run(main, feed=X, fetch_list=fetches)
    for _ in range(3):
        rate.step()
        after, = exe.run(main, feed=X, fetch_list=fetches)
        moved.append((before - after)[0, 0])
        before = after
    np.testing.assert_allclose(np.array(moved) / moved[0], [1, 0.5, 0.25], rtol=1e-4)
