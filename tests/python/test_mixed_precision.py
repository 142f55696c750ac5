"""Mixed precision: where casts go, results beside float32, scales that grow and shrink."""
import numpy as np
import pytest

import paddle
import paddle.fluid as fluid

layers = fluid.layers
amp = fluid.contrib.mixed_precision
rng = np.random.RandomState(5)
FP16, BF16, FP32 = (paddle.float16, paddle.bfloat16, paddle.float32)


def net():
    img = fluid.data('img', [None, 1, 8, 8])
    label = fluid.data('label', [None, 1], dtype='int64')
    conv = layers.conv2d(img, 4, 3, padding=1, act='relu')
    norm = layers.batch_norm(conv)
    pool = layers.pool2d(norm, 2, 'max', 2)
    logits = layers.fc(pool, 3)
    loss = layers.mean(layers.softmax_with_cross_entropy(logits, label))
    return conv, logits, loss


def batch():
    return {'img': rng.rand(6, 1, 8, 8).astype('float32'), 'label': np.arange(6).reshape(6, 1) % 3}


def run(exe, decorate, steps, feed, optimizer=lambda: fluid.optimizer.Momentum(0.1, 0.9)):
    """Losses of the same net and seed, with the optimizer as it is or decorated.

    The seed is one whose scaled gradients fit into float16 from the start: others begin with steps that are
    left out while the scale shrinks.
    """
    with fluid.unique_name.guard(), fluid.scope_guard(fluid.Scope()):
        main, startup = fluid.Program(), fluid.Program()
        main.random_seed = startup.random_seed = 4
        with fluid.program_guard(main, startup):
            _, _, loss = net()
            decorate(optimizer()).minimize(loss)
        exe.run(startup)
        return [exe.run(main, feed=feed, fetch_list=[loss])[0].item() for _ in range(steps)]


def test_white_ops_compute_in_half_and_black_ops_in_float(fresh):
    conv, logits, loss = net()
    amp.decorate(fluid.optimizer.SGD(0.1)).minimize(loss)
    block = fresh[0].global_block()
    assert conv.dtype == logits.dtype == FP16
    assert loss.dtype == FP32 and block.var('conv2d_0.w_0').dtype == FP32
    assert block.var('conv2d_0.w_0@GRAD').dtype == FP32
    op = next(op for op in block.ops if op.type == 'softmax_with_cross_entropy')
    assert op.input('Logits') == [logits.name + '.cast_fp32']
    op = next(op for op in block.ops if op.type == 'batch_norm')
    assert op.input('Scale') == ['batch_norm_0.w_0']  # statistics stay float32
    types = [op.type for op in block.ops]
    assert types.count('check_finite_and_unscale') == types.count('update_loss_scaling') == 1
    assert types.index('update_loss_scaling') < types.index('sgd')


@pytest.mark.parametrize('decorate, tolerance', [
    (amp.decorate, 0.01), (paddle.static.amp.bf16.decorate_bf16, 0.05)])
def test_training_follows_float32(exe, decorate, tolerance):
    feed = batch()
    full = run(exe, lambda optimizer: optimizer, 8, feed)
    half = run(exe, decorate, 8, feed)
    assert half[-1] < half[0]
    np.testing.assert_allclose(half, full, rtol=tolerance, atol=tolerance)
    assert half != full


@pytest.mark.parametrize('optimizer', [lambda: fluid.optimizer.Adam(0.01),
                                       lambda: fluid.optimizer.RMSProp(0.01)])
def test_other_optimizers(exe, optimizer):
    feed = batch()
    losses = run(exe, amp.decorate, 8, feed, optimizer)
    assert losses[-1] < losses[0]


def test_the_users_lists_win(fresh):
    conv, logits, loss = net()
    lists = amp.AutoMixedPrecisionLists(custom_white_list=['softmax_with_cross_entropy'],
                                        custom_black_list=['conv2d'])
    assert 'softmax_with_cross_entropy' in lists.white_list and 'conv2d' in lists.black_list
    amp.rewrite_program(fresh[0], lists)
    assert conv.dtype == FP32 and logits.dtype == FP16
    assert 'exp' not in amp.AutoMixedPrecisionLists({'exp'}).black_list
    with pytest.raises(ValueError, match='mul is in the white list and in the black list'):
        paddle.static.amp.CustomOpLists(['mul'], ['mul'])


def test_variables_may_be_kept_in_float(fresh):
    conv, _, _ = net()
    bias_add = conv.op.input('X')[0]
    amp.rewrite_program(fresh[0], amp.AutoMixedPrecisionLists(custom_black_varnames=[bias_add]))
    assert fresh[0].global_block().var(bias_add).dtype == FP32


def test_the_scale_shrinks_when_gradients_overflow_and_grows_again(exe, fresh):
    x = fluid.data('x', [2, 2])
    loss = layers.mean(layers.fc(x, 1, bias_attr=False, param_attr='w'))
    optimizer = amp.decorate(fluid.optimizer.SGD(0.1), init_loss_scaling=1024.0, incr_every_n_steps=2,
                             decr_every_n_nan_or_inf=1, incr_ratio=2.0, decr_ratio=0.5)
    optimizer.minimize(loss)
    exe.run(fresh[1])
    scale = optimizer.get_loss_scaling()

    def step(value):
        feed = {'x': np.full((2, 2), value, 'float32')}
        return exe.run(feed=feed, fetch_list=[scale])[0].item()
    before = np.array(fluid.global_scope().find_var('w').get_tensor())
    assert step(60000.0) == 512  # its gradient, times the scale, is beyond float16
    np.testing.assert_array_equal(np.array(fluid.global_scope().find_var('w').get_tensor()), before)
    assert [step(1.0), step(1.0)] == [512, 1024]
    assert not np.array_equal(np.array(fluid.global_scope().find_var('w').get_tensor()), before)
    assert optimizer.get_scaled_loss().name != loss.name


def test_a_fixed_scale_stays(exe, fresh):
    x = fluid.data('x', [2, 2])
    loss = layers.mean(layers.fc(x, 1))
    optimizer = amp.decorate(fluid.optimizer.SGD(0.1), init_loss_scaling=8.0,
                             use_dynamic_loss_scaling=False)
    optimizer.minimize(loss)
    assert 'update_loss_scaling' not in [op.type for op in fresh[0].global_block().ops]
    exe.run(fresh[1])
    got = exe.run(feed={'x': np.ones((2, 2), 'float32')}, fetch_list=[optimizer.get_loss_scaling()])
    assert got[0].item() == 8


def test_backward_and_apply_gradients_apart(exe, fresh):
    _, _, loss = net()
    optimizer = amp.decorate(fluid.optimizer.SGD(0.1), init_loss_scaling=64.0)
    optimizer.apply_gradients(optimizer.backward(loss))
    exe.run(fresh[1])
    feed = batch()
    losses = [exe.run(feed=feed, fetch_list=[loss])[0].item() for _ in range(5)]
    assert losses[-1] < losses[0]


def test_half_precision_programs_are_saved_and_loaded(exe, fresh, tmp_path):
    _, logits, loss = net()
    test = fresh[0].clone(for_test=True)
    amp.decorate(fluid.optimizer.SGD(0.1)).minimize(loss)
    exe.run(fresh[1])
    amp.rewrite_program(test, amp.AutoMixedPrecisionLists())
    feed = {'img': batch()['img']}
    out = test.global_block().var(logits.name)
    expected, = exe.run(test, feed=batch(), fetch_list=[out.name])[:1]
    assert expected.dtype == np.float16
    fluid.io.save_inference_model(str(tmp_path), ['img'], [out], exe, main_program=test)
    loaded, _, fetches = fluid.io.load_inference_model(str(tmp_path), exe)
    got, = exe.run(loaded, feed=feed, fetch_list=fetches)
    assert got.dtype == np.float16 and got.shape == (6, 3)


def test_what_is_not_there_says_so(fresh):
    x = fluid.data('x', [4, 4])
    sgd = fluid.optimizer.SGD(0.1)
    with pytest.raises(NotImplementedError, match='use_pure_fp16'):
        amp.decorate(sgd, use_pure_fp16=True)
    with pytest.raises(NotImplementedError, match='cast_model_to_fp16'):
        paddle.static.amp.cast_model_to_fp16(fresh[0])
    hidden = layers.fc(x, 4)
    layers.cond(layers.reduce_sum(x) > 1.0, lambda: hidden * 2.0, lambda: hidden)
    with pytest.raises(NotImplementedError, match='conditional_block reads .*casts are not made inside'):
        amp.rewrite_program(fresh[0], amp.AutoMixedPrecisionLists())


def test_sparse_gradients_say_that_they_are_not_scaled(fresh):
    ids = fluid.data('ids', [None, 1], dtype='int64')
    loss = layers.mean(layers.fc(layers.embedding(ids, [5, 2], is_sparse=True), 1))
    with pytest.raises(ValueError, match='is_sparse=False'):
        amp.decorate(fluid.optimizer.SGD(0.1)).minimize(loss)
