"""Small agreements with what the original's layers and tools take and give; values are the original's."""
import numpy as np
import pytest

import paddle
import paddle.fluid as fluid
from paddle.fluid import layers

A = np.arange(6, dtype='float32').reshape(2, 3)


def run(build, **feed):
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.scope_guard(fluid.Scope()):
        fed = {name: fluid.data(name, list(value.shape), str(value.dtype)) for name, value in feed.items()}
        results = build(**fed)
        results = results if isinstance(results, (list, tuple)) else [results]
        exe = fluid.Executor(fluid.CPUPlace())
        exe.run(startup)
        return exe.run(main, feed=feed, fetch_list=list(results))


@pytest.mark.parametrize('kind', ['cond', 'case', 'switch_case'])
def test_branches_of_different_types_meet_in_the_wider_one(kind):
    def build(x, limit):
        less = layers.less_than(layers.mean(x), limit)
        whole, twice = (lambda: layers.cast(x, 'int64')), (lambda: x * 2)
        with pytest.warns(UserWarning, match='result 0 is int64 from true_fn and float32 from false_fn: both'
                                             ' are turned into float32'):
            if kind == 'cond':
                joined = layers.cond(less, whole, twice)
            elif kind == 'case':
                joined = layers.case([(less, whole)], twice)
            else:
                joined = layers.switch_case(layers.cast(less, 'int32'), {1: whole, 0: twice}, twice)
        assert joined.dtype == fluid.core.VarDesc.VarType.FP32
        return joined, layers.scale(joined, 3.0)

    for limit, wanted in ((1., A * 2), (9., np.trunc(A))):
        for found, times in zip(run(build, x=A, limit=np.array([limit], 'float32')), (1, 3)):
            assert found.dtype == np.float32 and np.array_equal(found, wanted * times)


@pytest.mark.parametrize('ours, others, joined', [
    ('bool', 'int32', 'int32'), ('int32', 'bool', 'int32'), ('int64', 'int32', 'int64'), ('uint8', 'int8', 'int16'),
    ('float64', 'float32', 'float64'), ('float16', 'int64', 'float16')])
def test_the_wider_of_two_types(ours, others, joined):
    def build(x, yes):
        with pytest.warns(UserWarning, match='turned into ' + joined):
            return layers.cond(yes, lambda: layers.cast(x, ours), lambda: layers.cast(x, others))

    for yes in (True, False):
        found, = run(build, x=np.array([1.], 'float32'), yes=np.array([yes]))
        assert found.dtype == joined and found == 1


def test_gradients_go_through_the_branch_that_was_turned():
    def build(x, yes):
        x.stop_gradient = False
        with pytest.warns(UserWarning, match='turned into float64'):
            joined = layers.cond(yes, lambda: x * 3, lambda: layers.cast(x, 'float64') * 5)
        return fluid.gradients([joined], [x])

    for yes, wanted in ((True, 3), (False, 5)):
        found, = run(build, x=np.ones(2, 'float32'), yes=np.array([yes]))
        assert found.tolist() == [wanted, wanted]


def test_branches_of_different_shapes_are_right():
    for limit, wanted in ((1., A * 2), (9., np.array([2.5], 'float32'))):
        found, = run(lambda x: layers.cond(
            layers.less_than(layers.mean(x), layers.fill_constant([1], 'float32', limit)),
            lambda: layers.mean(x), lambda: x * 2), x=A)
        assert np.array_equal(found, wanted)


def test_a_condition_of_two_elements_is_refused():
    found = layers.less_than(layers.fill_constant([2], 'int64', 0), layers.fill_constant([2], 'int64', 1))
    with pytest.raises(ValueError, match=r'has shape \[2\]; it must be one bool'):
        layers.While(found)


@pytest.mark.parametrize('declared, fed, fits', [
    ([None, 1], [4], True), ([4, 1], [4], True), ([None, 3, 1], [2, 3], True), ([None, 1], [1], True),
    ([None, 3], [7], False), ([None, 1], [4, 1, 1], False), ([None], [4, 1], False), ([2, 3], [6], False),
    ([None, 3], [], False)])
def test_last_dimensions_of_one_may_be_left_out(exe, declared, fed, fits):
    y = layers.scale(fluid.data('x', declared), 2.0)
    value = np.ones(fed, 'float32')
    if fits:
        found, = exe.run(feed={'x': value}, fetch_list=[y])
        assert np.array_equal(found, value * 2)
    else:
        with pytest.raises(ValueError, match='the fed value of x has the wrong shape'):
            exe.run(feed={'x': value}, fetch_list=[y])


@pytest.mark.parametrize('data, lengths, shape, dtype', [
    ([np.array([1, 2]), np.array([3, 4, 5])], [[2, 3]], (5, 1), 'int64'),
    ([np.array([[1], [2]]), np.array([[3]])], [[2, 1]], (3, 1, 1), 'int64'),
    ([np.array([1.5, 2.]), np.array([3.])], [[2, 1]], (3, 1), 'float64'),
    ([[1, 2], [3, 4, 5]], [[2, 3]], (5, 1), 'int64')])
def test_lod_tensors_of_lists(data, lengths, shape, dtype):
    found = fluid.create_lod_tensor(data, lengths, fluid.CPUPlace())
    assert (np.array(found).shape, str(np.array(found).dtype)) == (shape, dtype)
    assert found.recursive_sequence_lengths() == lengths


def test_arrays_and_lengths_must_agree():
    with pytest.raises(AssertionError, match=r'but the arrays have \[2, 1\] rows'):
        fluid.create_lod_tensor([np.array([1, 2]), np.array([3])], [[2, 2]], fluid.CPUPlace())


def test_ragged_samples_name_their_variable():
    x = fluid.data('x', [None, 2])
    with pytest.raises(ValueError, match=r'the samples of x make no array .*shapes are \[\(1,\), \(2,\)\]'):
        fluid.DataFeeder([x], fluid.CPUPlace()).feed([([1, 2],), ([3],)])


def test_flat_samples_take_the_declared_shape():
    x, y = layers.data('x', [1, 2, 2]), layers.data('y', [1], dtype='int64')
    fed = fluid.DataFeeder([x, y], fluid.CPUPlace()).feed([([1, 2, 3, 4], 1), ([5, 6, 7, 8], 0)])
    assert np.array(fed['x']).shape == (2, 1, 2, 2) and np.array(fed['y']).shape == (2, 1)


@pytest.mark.parametrize('thresholds', [1, 200, 4095])
def test_auc_of_any_number_of_thresholds(thresholds):
    found = run(lambda p, t: layers.auc(p, t, num_thresholds=thresholds)[0],
                p=np.array([[.9, .1], [.3, .7], [.6, .4]], 'float32'), t=np.array([[0], [1], [1]]))
    assert found[0].item() == {1: 0.5}.get(thresholds, 1.0)


def test_argmax_in_every_form():
    found = run(lambda x: [paddle.argmax(x), paddle.argmax(x, axis=1), paddle.argmax(x, axis=0, dtype='int32'),
                           paddle.argmax(x, axis=0, keepdim=True), paddle.argmax(x, keepdim=True)], x=A)
    assert found[0].item() == 5
    assert [each.tolist() for each in found[1:]] == [[2, 2], [1, 1, 1], [[1, 1, 1]], [[5]]]
    assert str(found[2].dtype) == 'int32'


def test_gather_along_an_axis():
    found, last = run(lambda x, i: [paddle.gather(x, i, axis=1), paddle.gather(x, i, axis=-1)], x=A,
                      i=np.array([2, 0]))
    assert found.tolist() == last.tolist() == [[2, 0], [5, 3]]
    with pytest.raises(ValueError, match='axis is 2, but y has 2 dimensions'):
        paddle.gather(fluid.data('y', [2, 3]), fluid.data('j', [1], 'int64'), axis=2)


@pytest.mark.parametrize('axis, mode', [(0, 'upscale_in_train'), (1, 'downscale_in_infer'), ([0, 1], 'upscale_in_train')])
def test_dropout_along_axes(axis, mode):
    x = np.ones((400, 500), 'float32')  # a share that is off by seven deviations fails
    trained, tested = run(lambda x: [paddle.nn.functional.dropout(x, 0.25, axis, True, mode),
                                     paddle.nn.functional.dropout(x, 0.25, axis, False, mode)], x=x)
    up = mode == 'upscale_in_train'
    assert set(np.unique(trained.round(4))) == {0, np.float32(1 / 0.75).round(4) if up else 1}
    assert np.allclose(tested, 1 if up else 0.75)
    assert 0.1 < (trained == 0).mean() < 0.45
    if axis == 0:
        assert (trained == trained[:, :1]).all()
    elif axis == 1:
        assert (trained == trained[:1]).all()
    with pytest.raises(ValueError, match='axis is'):
        paddle.nn.functional.dropout(fluid.data('z', [2, 3]), 0.5, axis=2)


def test_momentum_rescales_gradients():
    def weight(factor, **how):
        main, startup = fluid.Program(), fluid.Program()
        with fluid.unique_name.guard(), fluid.program_guard(main, startup), fluid.scope_guard(fluid.Scope()):
            x = fluid.data('x', [2, 3])
            loss = layers.mean(layers.fc(x, 1, param_attr=fluid.ParamAttr(
                'w', initializer=fluid.initializer.Constant(1.0)), bias_attr=False)) * factor
            paddle.optimizer.Momentum(0.1, **how).minimize(loss)
            exe = fluid.Executor(fluid.CPUPlace())
            exe.run(startup)
            for _ in range(3):
                exe.run(main, feed={'x': A})
            return np.array(fluid.global_scope().find_var('w').get_tensor())
    assert np.allclose(weight(1.0, rescale_grad=0.5, weight_decay=0.1), weight(0.5, weight_decay=0.1), rtol=1e-6)
    assert not np.allclose(weight(1.0, weight_decay=0.1), weight(0.5, weight_decay=0.1))


def test_a_plateau_of_negative_metrics():
    """The rates are those of 2.6.2."""
    wanted = {('min', 'rel'): [0.1] * 5, ('min', 'abs'): [0.1, 0.05, 0.05, 0.025, 0.0125],
              ('max', 'rel'): [0.1, 0.1, 0.05, 0.025, 0.0125], ('max', 'abs'): [0.1, 0.05, 0.025, 0.0125, 0.00625]}
    for (mode, threshold_mode), rates in wanted.items():
        plateau = paddle.optimizer.lr.ReduceOnPlateau(0.1, mode=mode, patience=0, factor=0.5,
                                                      threshold_mode=threshold_mode, threshold=0.1)
        found = []
        for metric in (-1.0, -1.05, -1.5, -1.4, -1.3):
            plateau.step(np.array([metric], 'float32'))
            found.append(plateau.last_lr)
        assert np.allclose(found, rates), (mode, threshold_mode)


def test_a_warmup_keeps_its_inner_schedule():
    def made():
        inner = paddle.optimizer.lr.PiecewiseDecay([3, 6], [0.1, 0.05, 0.01])
        return paddle.optimizer.lr.LinearWarmup(inner, 2, 0.0, 0.1)

    def rates(schedule, steps):
        found = []
        for _ in range(steps):
            found.append(schedule())
            schedule.step()
        return found
    first, second = made(), made()
    assert np.allclose(rates(first, 5), [0.0, 0.05, 0.1, 0.1, 0.1])
    assert first.state_dict()['LinearWarmup_LR'] == {'last_epoch': 3, 'last_lr': 0.05}
    second.set_state_dict(first.state_dict())
    assert np.allclose(rates(second, 5), rates(first, 5))


def test_unknown_keywords_of_save_inference_model_are_refused(tmp_path):
    with pytest.raises(TypeError, match="no argument 'clip_extr'") as error:
        paddle.static.save_inference_model(str(tmp_path / 'm'), [], [], None, clip_extr=True)
    assert "did you mean 'clip_extra'?" in str(error.value)


def test_names_that_are_not_here_are_no_attributes():
    for name, why in [('Model', 'needs dynamic mode'), ('hapi', 'is not built yet')]:
        assert not hasattr(paddle, name)
        with pytest.raises(NotImplementedError, match=why):
            getattr(paddle, name)
    hasattr(paddle, 'distributed')  # here or not, asking is no error


def test_recompute_needs_an_optimizer():
    with pytest.raises(AssertionError, match='the inner optimizer is missing'):
        fluid.optimizer.RecomputeOptimizer(None)
    with pytest.raises(TypeError, match='int 3 is given where an object of the class Optimizer is due'):
        fluid.optimizer.RecomputeOptimizer(3)


def test_unique_names_go_back_to_what_was():
    before, checker = fluid.unique_name.switch()
    assert fluid.unique_name.generate('a') == 'a_0'
    own = fluid.unique_name.switch(before, checker)
    after = fluid.unique_name.switch(*own)
    assert fluid.unique_name.generate('a') == 'a_1'
    with pytest.raises(TypeError, match=r'write switch\(\*pair\)'):
        fluid.unique_name.switch(after)
    with pytest.raises(TypeError, match='new_para_name_checker is 3'):
        fluid.unique_name.switch(None, 3)
    fluid.unique_name.switch(*after)


def test_beams_of_an_unknown_length(exe):
    x = fluid.data('x', [-1, -1, 4])
    tiled = layers.BeamSearchDecoder.tile_beam_merge_with_batch(x, 3)
    value = np.arange(16, dtype='float32').reshape(2, 2, 4)
    found, = exe.run(feed={'x': value}, fetch_list=[tiled])
    assert found.shape == (6, 2, 4) and found[:, 0, 0].tolist() == [0, 0, 0, 8, 8, 8]


def test_clamp_without_a_bound_cuts_nothing_there():
    x = np.array([-2, -0.5, 0.5, 2], 'float32')
    upper, lower = run(lambda x: [layers.clamp(x, max=0.4), layers.clamp(x, min=-1.)], x=x)
    assert np.allclose(upper, [-2, -0.5, 0.4, 0.4]) and np.allclose(lower, [-1, -0.5, 0.5, 2])


def test_target_assign_weighs_the_columns_that_are_named(exe):
    rows = layers.data('rows', [1, 3], lod_level=1)
    match = fluid.data('match', [1, 4], 'int32')
    negative = layers.data('negative', [1], dtype='int32', lod_level=1)
    out, weight = layers.target_assign(rows, match, negative, mismatch_value=9)
    place = fluid.CPUPlace()
    found = exe.run(feed={
        'rows': fluid.create_lod_tensor(np.arange(6, dtype='float32').reshape(2, 1, 3), [[2]], place),
        'match': np.array([[0, -1, 1, -1]], 'int32'),
        'negative': fluid.create_lod_tensor(np.array([[3]], 'int32'), [[1]], place)}, fetch_list=[out, weight])
    assert found[0][0].tolist() == [[0, 1, 2], [9, 9, 9], [3, 4, 5], [9, 9, 9]]
    assert found[1][0, :, 0].tolist() == [1, 0, 1, 1]


def test_servers_of_a_saved_table_may_have_moved(exe, tmp_path):
    ids = fluid.data('ids', [None, 1], 'int64')
    rows = layers.embedding(ids, [10, 2], is_sparse=True, param_attr='table')
    exe.run(fluid.default_startup_program())
    lookup = fluid.default_main_program().global_block().ops[0]
    lookup._set_attr('epmap', ['127.0.0.1:7000', '127.0.0.1:7001'])
    fluid.io.save_inference_model(str(tmp_path), ['ids'], [layers.scale(rows, 2.0)], exe)
    now = ['127.0.0.1:8000', '127.0.0.1:8001']

    def addresses(moved):
        program, _, _ = fluid.io.load_inference_model(str(tmp_path), exe, pserver_endpoints=moved)
        return [op.attr('epmap') for op in program.global_block().ops if op.has_attr('epmap')]
    assert addresses(None) == [['127.0.0.1:7000', '127.0.0.1:7001']]
    assert addresses(now) == [now]
    with pytest.raises(ValueError, match='3 addresses, but lookup_table of .* asks 2 servers'):
        addresses(now + now[:1])
