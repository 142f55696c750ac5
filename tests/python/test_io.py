"""Saving and loading through the fluid and static names."""
import numpy as np
import pytest

import paddle
import paddle.fluid as fluid


def trained(exe):
    x = fluid.data('x', [None, 3])
    out = fluid.layers.fc(x, 2, act='tanh')
    fluid.optimizer.Adam(0.1).minimize(fluid.layers.mean(out))
    exe.run(fluid.default_startup_program())
    feed = {'x': np.arange(6, dtype='float32').reshape(2, 3)}
    exe.run(feed=feed)
    test = fluid.default_main_program().clone(for_test=True)
    return out, feed, test, exe.run(test, feed=feed, fetch_list=[out])[0]


@pytest.mark.parametrize('params_filename', [None, '__params__'])
def test_an_inference_model_predicts_the_same(exe, tmp_path, params_filename):
    out, feed, _, expected = trained(exe)
    before = fluid.default_main_program().desc.serialize_to_string()
    fluid.io.save_inference_model(str(tmp_path), ['x'], [out], exe, params_filename=params_filename)
    assert fluid.default_main_program().desc.serialize_to_string() == before
    with fluid.scope_guard(fluid.Scope()):
        program, feeds, fetches = fluid.io.load_inference_model(
            str(tmp_path), exe, params_filename=params_filename)
        assert feeds == ['x']
        got, = exe.run(program, feed=feed, fetch_list=fetches)
        assert np.array_equal(got, expected)
        with pytest.raises(Exception, match='feed lacks'):
            exe.run(program, feed={'y': feed['x']}, fetch_list=fetches)


def test_a_static_inference_model_predicts_the_same(exe, tmp_path):
    out, feed, _, expected = trained(exe)
    x = fluid.default_main_program().global_block().var('x')
    prefix = str(tmp_path / 'model')
    paddle.static.save_inference_model(prefix, [x], [out], exe)
    with fluid.scope_guard(fluid.Scope()):
        program, feeds, fetches = paddle.static.load_inference_model(prefix, exe)
        got, = exe.run(program, feed={feeds[0]: feed['x']}, fetch_list=fetches)
        assert np.array_equal(got, expected)


def test_persistables_and_states_come_back(exe, tmp_path):
    out, feed, test, expected = trained(exe)
    main = fluid.default_main_program()
    fluid.io.save_persistables(exe, str(tmp_path / 'vars'), main)
    fluid.save(main, str(tmp_path / 'state'))
    for load in (lambda: fluid.io.load_persistables(exe, str(tmp_path / 'vars'), main),
                 lambda: fluid.load(main, str(tmp_path / 'state'), exe)):
        with fluid.scope_guard(fluid.Scope()):
            load()
            assert np.array_equal(exe.run(test, feed=feed, fetch_list=[out])[0], expected)
    state = fluid.load_program_state(str(tmp_path / 'state'))
    assert state['fc_0.w_0'].shape == (3, 2)
    state['fc_0.w_0'][:] = 0
    fluid.set_program_state(main, state)
    assert not np.array(fluid.global_scope().find_var('fc_0.w_0').get_tensor()).any()
