"""Executor.run: every argument, feeds and fetches, errors, threads, Ctrl-C."""
import os
import signal
import subprocess
import sys
import textwrap
import threading
import warnings

import numpy as np
import pytest

import paddle.fluid as fluid


def doubled(checked=True, dtype='float32'):
    if checked:
        x = fluid.data('x', [None, 3], dtype)
    else:
        x = fluid.layers.data('x', [3], dtype=dtype)
    return x, fluid.layers.scale(x, 2.0)


def ones(*shape, dtype='float32'):
    return np.ones(shape, dtype)


def test_fetch_by_variable_by_name_and_alone(exe):
    x, out = doubled()
    feed = {'x': ones(2, 3)}
    assert (exe.run(feed=feed, fetch_list=[out, out.name])[1] == 2).all()
    assert (exe.run(feed=feed, fetch_list=out)[0] == 2).all()
    assert exe.run(feed=feed) == []
    assert exe.run(feed=[feed], fetch_list=[[out], x])[1].shape == (2, 3)


def test_wrong_arguments_have_the_documented_types(exe):
    x, out = doubled()
    feed = {'x': ones(2, 3)}
    with pytest.raises(TypeError):
        exe.run('program')
    with pytest.raises(TypeError):
        exe.run(feed='x')
    with pytest.raises(AssertionError):
        exe.run(feed=[feed, feed])
    with pytest.raises(AssertionError):
        exe.run(feed=feed, fetch_list=3)
    with pytest.raises(TypeError):
        exe.run(feed=feed, fetch_list=[3])
    with pytest.raises(TypeError):
        exe.run(feed=feed, fetch_list=[out.op])
    with pytest.raises(TypeError):
        exe.run(feed=feed, scope='scope')
    with pytest.raises(TypeError):
        exe.run(feed={'x': object()}, fetch_list=[out])
    exe.close()
    exe.close()
    with pytest.raises(RuntimeError):
        exe.run(feed=feed)


def test_feeds_may_be_arrays_tensors_lists_and_numbers(exe):
    x, out = doubled()
    tensor = fluid.LoDTensor()
    tensor.set(ones(2, 3), fluid.CPUPlace())
    for value in (ones(2, 3), tensor, [[1, 1, 1], [1, 1, 1]], np.ones((3, 2), 'float32').T,
                  ones(2, 3).astype('>f4')):
        assert (exe.run(feed={'x': value}, fetch_list=[out])[0] == 2).all()
    y = fluid.data('y', [1], 'int64')
    assert exe.run(feed={'x': ones(1, 3), 'y': 5}, fetch_list=[y])[0].tolist() == [5]
    with pytest.raises(TypeError):
        exe.run(feed={'x': [[1, 2, 3], [1]]}, fetch_list=[out])


def test_checked_feeds_show_both_sides(exe):
    x, out = doubled()
    with pytest.raises(ValueError, match=r'declared float32 \[-1, 3\], fed float32 \[2, 4\]'):
        exe.run(feed={'x': ones(2, 4)}, fetch_list=[out])
    with pytest.raises(ValueError, match='int64'):
        exe.run(feed={'x': ones(2, 3, dtype='int64')}, fetch_list=[out])
    with pytest.raises(fluid.core.EnforceNotMet):
        exe.run(feed={'x': ones(3)}, fetch_list=[out])


def test_convertible_feeds_warn_once(exe):
    x, out = doubled()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter('always')
        for _ in range(3):
            result, = exe.run(feed={'x': ones(2, 3, dtype='float64')}, fetch_list=[out])
    assert result.dtype == np.float32 and len(said) == 1
    assert 'float64 is converted to float32' in str(said[0].message)
    assert said[0].filename == __file__


def test_an_unknown_feed_is_a_warning(exe):
    x, out = doubled()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter('always')
        exe.run(feed={'x': ones(2, 3), 'zzz_unknown': ones(1)}, fetch_list=[out])
    assert ['zzz_unknown' in str(w.message) for w in said] == [True]


def test_an_error_names_the_users_line(exe):
    x = fluid.layers.data('x', [3])
    out = fluid.layers.fc(x, 2)  # the line that the error names
    fluid.Executor().run(fluid.default_startup_program())
    with pytest.raises(ValueError) as caught:
        exe.run(feed={'x': ones(2, 5)}, fetch_list=[out])
    text = str(caught.value)
    assert os.path.basename(__file__) in text and 'out = fluid.layers.fc(x, 2)' in text
    with pytest.raises(ValueError) as caught:
        fluid.layers.elementwise_add(out, fluid.layers.data('y', [7]))
    assert 'fluid.layers.elementwise_add(out' in str(caught.value)


def test_running_before_startup_says_so(exe):
    x = fluid.layers.data('x', [3])
    out = fluid.layers.fc(x, 2)
    with pytest.raises(RuntimeError, match='startup'):
        exe.run(feed={'x': ones(2, 3)}, fetch_list=[out])


def test_lod_comes_back_as_a_tensor_only(exe):
    x = fluid.data('x', [None, 1], lod_level=1)
    out = fluid.layers.scale(x, 2.0)
    tensor = fluid.create_lod_tensor(ones(3, 1), [[1, 2]], fluid.CPUPlace())
    with pytest.raises(RuntimeError, match='return_numpy=False'):
        exe.run(feed={'x': tensor}, fetch_list=[out])
    result, = exe.run(feed={'x': tensor}, fetch_list=[out], return_numpy=False)
    assert result.recursive_sequence_lengths() == [[1, 2]] and (np.array(result) == 2).all()


def test_a_guard_may_be_the_first_to_touch_a_scope():
    """The process's own scope comes back behind it, in a process that has not used it before."""
    script = ("import paddle.fluid as fluid\n"
              "with fluid.scope_guard(fluid.Scope()):\n"
              "    fluid.global_scope().var('inside')\n"
              "fluid.layers.fc(fluid.data('x', [None, 3]), 2)\n"
              "fluid.Executor(fluid.CPUPlace()).run(fluid.default_startup_program())\n"
              "print(fluid.global_scope().find_var('inside'), fluid.global_scope().find_var('fc_0.w_0') is None)")
    child = subprocess.run([sys.executable, '-c', script], stdout=subprocess.PIPE, text=True)
    assert child.returncode == 0 and child.stdout.split() == ['None', 'False'], child


def test_only_persistables_stay_in_the_scope(exe, fresh):
    main, startup = fresh
    x = fluid.layers.data('x', [3])
    out = fluid.layers.fc(x, 2)
    scope = fluid.Scope()
    exe.run(startup, scope=scope)
    exe.run(main, feed={'x': ones(2, 3)}, fetch_list=[out], scope=scope)
    assert scope.find_var('fc_0.w_0') is not None and scope.find_var(out.name) is None
    assert fluid.global_scope().find_var('fc_0.w_0') is None


def test_fetching_what_minimize_returned_trains(exe, fresh):
    main, startup = fresh
    x = fluid.layers.data('x', [3])
    loss = fluid.layers.mean(fluid.layers.fc(x, 2))
    unused = fluid.layers.data('unused', [3])
    fluid.layers.scale(unused, 2.0)
    result = fluid.optimizer.SGD(0.1).minimize(loss)
    exe.run(startup)
    feed = {'x': ones(2, 3)}
    first = exe.run(main, feed=feed, fetch_list=[loss, result])
    second = exe.run(main, feed=feed, fetch_list=[loss], use_prune=True)
    assert len(first) == 1 and first[0] > second[0]


def test_a_fetched_array_is_the_users_own(exe):
    x, out = doubled()
    first, = exe.run(feed={'x': ones(2, 3)}, fetch_list=[out])
    second, = exe.run(feed={'x': 5 * ones(2, 3)}, fetch_list=[out])
    assert (first == 2).all() and (second == 10).all() and first.flags.writeable


def test_a_steady_step_compiles_once(exe):
    x, out = doubled()
    for rows in (2, 2, 3, 2):
        exe.run(feed={'x': ones(rows, 3)}, fetch_list=[out])
    assert exe._engine.counters['compiles'] == 1


def test_threads_may_run_at_once(exe, fresh):
    main, startup = fresh
    x = fluid.layers.data('x', [3])
    out = fluid.layers.fc(x, 2, param_attr=fluid.initializer.Constant(1.0))
    exe.run(startup)
    scope, wrong = fluid.global_scope(), []

    def work(value):
        for _ in range(50):
            result, = exe.run(main, feed={'x': np.full((4, 3), value, 'float32')},
                              fetch_list=[out], scope=scope)
            if not (result == 3 * value).all():
                wrong.append(result)
    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_cuda_is_a_clear_error():
    x, out = doubled()
    with pytest.raises(RuntimeError, match='(?s)(no GPU|gpu:0 cannot) .*CPUPlace'):
        fluid.Executor(fluid.CUDAPlace(0)).run(feed={'x': ones(2, 3)}, fetch_list=[out])
    with pytest.raises(ValueError):
        fluid.CUDAPlace(-1)


def test_ctrl_c_ends_a_run():
    script = textwrap.dedent('''
        import signal
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job ignores it
        import numpy as np, paddle.fluid as fluid
        x = fluid.layers.data('x', [256])
        for _ in range(400):
            x = fluid.layers.fc(x, 256)
        exe = fluid.Executor()
        exe.run(fluid.default_startup_program())
        print('ready', flush=True)
        while True:
            exe.run(feed={'x': np.ones((2048, 256), 'float32')}, fetch_list=[x])
    ''')
    child = subprocess.Popen([sys.executable, '-c', script], stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True)
    assert child.stdout.readline() == 'ready\n'
    threading.Event().wait(0.5)
    child.send_signal(signal.SIGINT)
    _, errors = child.communicate(timeout=60)
    assert 'KeyboardInterrupt' in errors and child.returncode != 0
