"""fluid.contrib: fused layers, statistics of programs, decoupled weight decay. Numbers are the original's."""
import inspect

import numpy as np
import pytest

import paddle.fluid as fluid
from paddle.fluid import contrib
from paddle.fluid.contrib import layers

X = np.arange(8, dtype='float32').reshape(2, 4)


def run(build, feed, steps=1):
    main, startup, scope = fluid.Program(), fluid.Program(), fluid.core.Scope()
    with fluid.scope_guard(scope), fluid.unique_name.guard(), fluid.program_guard(main, startup):
        made = build()
        exe = fluid.Executor(fluid.CPUPlace())
        if startup.global_block().ops:
            exe.run(startup)
        for _ in range(steps):
            found = exe.run(main, feed=feed, fetch_list=list(made) if isinstance(made, (list, tuple)) else [made],
                            return_numpy=False)
    return [np.array(value) for value in found]


def data(name, columns=4, dtype='float32', lod_level=0):
    return fluid.data(name, [None, columns], dtype, lod_level)


@pytest.mark.parametrize('functors, wanted', [
    (['elementwise_add', 'relu'], X), (['relu', 'elementwise_add'], 0 * X),
    ('elementwise_add,scale', X + 2 * (-X - 1))])
def test_fused_elemwise_activation(functors, wanted):
    y = -X if functors == ['elementwise_add', 'relu'] else -X - 1
    found, = run(lambda: layers.fused_elemwise_activation(data('x'), data('y'), functors, scale=2.0), {'x': X, 'y': y})
    np.testing.assert_array_equal(found, wanted)


def test_fused_elemwise_activation_of_two_binary_functors():
    with pytest.raises(ValueError, match='functor_list'):
        run(lambda: layers.fused_elemwise_activation(data('x'), data('y'), ['elementwise_add', 'elementwise_mul']), {})


@pytest.mark.parametrize('start, length, wanted', [
    (1, 2, [[1, 2, -1, -2], [5, 6, -5, -6]]), (-2, -1, [[2, 3, -2, -3], [6, 7, -6, -7]])])
def test_partial_concat(start, length, wanted):
    found, = run(lambda: layers.partial_concat([data('x'), data('y')], start, length), {'x': X, 'y': -X})
    np.testing.assert_array_equal(found, wanted)


def test_partial_sum():
    found, = run(lambda: layers.partial_sum([data('x'), data('y')], 1, 2), {'x': X, 'y': X})
    np.testing.assert_array_equal(found, [[2, 4], [10, 12]])
    with pytest.raises(ValueError, match='the inputs have 4'):
        run(lambda: layers.partial_sum([data('x'), data('y')], 3, 2), {})


def test_fused_embedding_seq_pool():
    table = fluid.initializer.NumpyArrayInitializer(np.arange(10, dtype='float32').reshape(5, 2))
    ids = fluid.create_lod_tensor(np.int64([[1], [2], [3]]), [[2, 1]], fluid.CPUPlace())
    found, = run(lambda: layers.fused_embedding_seq_pool(data('x', 1, 'int64', 1), [5, 2], param_attr=table), {'x': ids})
    np.testing.assert_array_equal(found, [[6, 8], [6, 7]])


def test_ctr_metric_bundle_goes_on_from_step_to_step():
    feed = {'x': np.float32([[.2], [.7]]), 'y': np.float32([[0], [1]])}
    found = run(lambda: layers.ctr_metric_bundle(data('x', 1), data('y', 1)), feed, steps=2)
    np.testing.assert_allclose(np.concatenate(found), [0.26, 1.0, 1.8, 2.436, 2.0, 4.0], rtol=1e-4)


def test_tdm_child():
    # item, layer, parent, children: node 1 has the leaves 3 and 4, node 2 has 5 and 6
    nodes = [(0, 0, 0), (0, 1, 0, 3, 4), (0, 1, 0, 5, 6), (20, 2, 1), (21, 2, 1), (22, 2, 2), (23, 2, 2)]
    tree = np.int32([node + (0,) * (5 - len(node)) for node in nodes])
    tree[0, 3:] = 1, 2
    attr = fluid.ParamAttr(initializer=fluid.initializer.NumpyArrayInitializer(tree))
    children, leaves = run(lambda: layers.tdm_child(data('x', 1, 'int32'), 7, 2, attr),
                           {'x': np.int32([[1], [2], [0], [3]])})
    assert children.tolist() == [[[3, 4]], [[5, 6]], [[0, 0]], [[0, 0]]]
    assert leaves.tolist() == [[[1, 1]], [[1, 1]], [[0, 0]], [[0, 0]]]


def test_shuffle_batch_keeps_rows_whole():
    rows = np.arange(40, dtype='float32').reshape(20, 2)
    one, = run(lambda: layers.shuffle_batch(data('x', 2), seed=3), {'x': rows})
    other, = run(lambda: layers.shuffle_batch(data('x', 2), seed=3), {'x': rows}, steps=2)
    for found in (one, other):
        np.testing.assert_array_equal(found[found[:, 0].argsort()], rows)
    assert (one != other).any() and (one != rows).any()


def fc_program():
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        loss = fluid.layers.mean(fluid.layers.fc(fluid.layers.data('x', [10]), 20))
    return main, startup, loss


@pytest.mark.parametrize('batch, wanted', [(1, (172.2, 180.4, 'B')), (1000, (164.066602, 171.879297, 'KB'))])
def test_memory_usage(batch, wanted):
    low, high, unit = contrib.memory_usage(fc_program()[0], batch)
    assert (low, high, unit) == (pytest.approx(wanted[0], 1e-4), pytest.approx(wanted[1], 1e-4), wanted[2])


def test_memory_usage_needs_a_program_and_a_batch():
    with pytest.raises(TypeError, match='Program'):
        contrib.memory_usage(1, 10)
    with pytest.raises(ValueError, match='positive'):
        contrib.memory_usage(fluid.Program(), 0)


def test_op_freq_statistic():
    single, pairs = contrib.op_freq_statistic(fc_program()[0])
    assert single == [('mul', 1), ('elementwise_add', 1), ('mean', 1)]
    assert pairs == [('mul->elementwise_add', 1), ('elementwise_add->mean', 1)]


def test_summary(capsys):
    assert contrib.summary(fc_program()[0]) == (200, 400)
    assert '(10,)' in capsys.readouterr().out


def test_decoupled_weight_decay_shrinks_the_parameter_first():
    main, startup, loss = fc_program()
    with fluid.program_guard(main, startup), fluid.scope_guard(fluid.core.Scope()) as _:
        optimizer = contrib.extend_with_decoupled_weight_decay(fluid.optimizer.SGD)(
            learning_rate=0.5, weight_decay=0.1, apply_decay_param_fun=lambda name: name.endswith('w_0'))
        optimizer.minimize(loss)
        exe = fluid.Executor(fluid.CPUPlace())
        exe.run(startup)
        tensors = {name: fluid.global_scope().find_var(name).get_tensor() for name in ('fc_0.w_0', 'fc_0.b_0')}
        before = {name: np.array(tensor).copy() for name, tensor in tensors.items()}
        exe.run(main, feed={'x': np.ones((2, 10), 'float32')})
        np.testing.assert_allclose(np.array(tensors['fc_0.w_0']), 0.9 * before['fc_0.w_0'] - 0.5 / 20, rtol=1e-5, atol=1e-7)
        np.testing.assert_allclose(np.array(tensors['fc_0.b_0']), before['fc_0.b_0'] - 0.5 / 20, rtol=1e-5)
    assert [op.type for op in main.global_block().ops].count('assign') == 1
    with pytest.raises(TypeError, match='class of optimizers'):
        contrib.extend_with_decoupled_weight_decay(fluid.optimizer.SGD(0.1))


def in_rows(values, lengths):
    return fluid.create_lod_tensor(np.float32(values).reshape([-1, 1]), [lengths], fluid.CPUPlace())


def images():
    """[[1, 2, 3], [4, 5, 6]] and [[7]]."""
    feed = {'x': in_rows(range(1, 8), [6, 1]), 'row': in_rows([0] * 3, [2, 1]), 'col': in_rows([0] * 4, [3, 1])}
    return feed, lambda: [data(name, 1, lod_level=1) for name in ('x', 'row', 'col')]


def test_match_matrix_tensor():
    words = fluid.create_lod_tensor(np.float32([[1, 0], [0, 1], [2, 3]]), [[2, 1]], fluid.CPUPlace())
    others = fluid.create_lod_tensor(np.float32([[1, 2], [3, 4]]), [[1, 1]], fluid.CPUPlace())
    ones = fluid.ParamAttr(initializer=fluid.initializer.Constant(1.0))

    def build():
        return layers.match_matrix_tensor(data('x', 2, lod_level=1), data('y', 2, lod_level=1), 1, param_attr=ones)[0]
    found, = run(build, {'x': words, 'y': others})
    assert found.ravel().tolist() == [3, 3, 35]
    with pytest.raises(ValueError, match='one width'):
        run(lambda: layers.match_matrix_tensor(data('x', 2, lod_level=1), data('y', 3, lod_level=1), 1), {})


def test_var_conv_2d():
    feed, inputs = images()
    ones = fluid.ParamAttr(initializer=fluid.initializer.Constant(1.0))
    found, = run(lambda: layers.var_conv_2d(*inputs(), 1, 1, [1, 2], stride=2, param_attr=ones), feed)
    assert found.ravel().tolist() == [1, 5, 7]
    with pytest.raises(ValueError, match='filter_size is'):
        run(lambda: layers.var_conv_2d(*inputs(), 1, 1, [1, 2, 3]), {})


def test_sequence_topk_avg_pooling():
    feed, inputs = images()
    found, = run(lambda: layers.sequence_topk_avg_pooling(*inputs(), topks=[1, 2], channel_num=1), feed)
    assert found.tolist() == [[3, 2.5], [6, 5.5], [7, 3.5]]
    with pytest.raises(fluid.core.EnforceNotMet, match='topks is'):
        run(lambda: layers.sequence_topk_avg_pooling(*inputs(), topks=[2, 2], channel_num=1), {})


def test_tree_conv_has_the_parameters_of_the_original():
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        out = layers.tree_conv(fluid.data('n', [None, 10, 5]), fluid.data('e', [None, None, 2], 'int32'), 6, 2)
    assert out.shape == (-1, 10, 6, 2)
    assert {p.name: p.shape for p in main.all_parameters()} == {
        'tree_conv_0.w_0': (5, 3, 6, 2), 'tree_conv_0.b_0': (10, 6, 2)}
    assert [op.type for op in main.global_block().ops] == ['tree_conv', 'elementwise_add', 'tanh']
    assert [op.attr('axis') for op in main.global_block().ops[1:2]] == [1]


def tree(name, nodes):
    return fluid.ParamAttr(name=name, initializer=fluid.initializer.NumpyArrayInitializer(np.int32(nodes)))


def sampled(drawn, leaf_count=4, **more):
    return layers.tdm_sampler(data('x', 1, 'int32'), drawn, [2, 4], leaf_count, tree('t', [[1, 3], [1, 4], [2, 5], [2, 6]]),
                              tree('l', [[1], [2], [3], [4], [5], [6]]), **more)


def test_tdm_sampler():
    x = np.int32([[0], [3]])
    (upper, lower), labels, masks = run_levels(lambda: sampled([1, 3], seed=5), x)
    assert upper.tolist() == [[[1], [2]], [[2], [1]]]
    assert [sorted(row[0] for row in leaf) for leaf in lower.tolist()] == [[3, 4, 5, 6]] * 2 and lower[:, 0, 0].tolist() == [3, 6]
    assert labels[1][:, :, 0].tolist() == [[1, 0, 0, 0]] * 2 and masks[1].min() == 1
    nodes, labels, masks = run(lambda: sampled([1, 0], output_positive=False, output_list=False), {'x': x})
    assert nodes.tolist() == [[2], [1]] and labels.max() == 0 and masks.min() == 1


def run_levels(build, x):
    found = run(lambda: sum(build(), []), {'x': x})
    return found[:2], found[2:4], found[4:]


def test_tdm_sampler_refuses():
    with pytest.raises(ValueError, match='draws from 1 levels'):
        run(lambda: sampled([1]), {})
    with pytest.raises(ValueError, match='a level gives no nodes'):
        run(lambda: sampled([1, 0], output_positive=False), {})
    with pytest.raises(TypeError, match='as its dtype'):
        run(lambda: sampled([1, 0], dtype='float32'), {})
    with pytest.raises(fluid.core.EnforceNotMet, match='asks for 4 nodes of level 1, which has 4'):
        run(lambda: sampled([1, 4]), {})


def attended(x, offset, weights):
    attr = fluid.ParamAttr('blocks', fluid.initializer.NumpyArrayInitializer(weights))
    return layers.rank_attention(x, offset, list(weights.shape), attr, max_rank=2)


def test_rank_attention_sums_over_the_neighbours():
    weights = np.arange(1, 5, dtype='float32').reshape(4, 1) * np.float32([[1, 10]])  # a block for each pair of ranks
    # Row 0 has rank 1, itself and row 1 (rank 2) beside it; row 1 has rank 2 and only row 0; row 2 has no rank.
    offset = np.int32([[1, 1, 0, 2, 1], [2, 1, 0, 0, 0], [0, 1, 0, 2, 1]])
    out, = run(lambda: [attended(fluid.data('x', [None, 1]), fluid.data('o', [None, 5], 'int32'), weights)],
               {'x': np.float32([[1], [100], [7]]), 'o': offset})
    assert out.tolist() == [[201, 2010], [3, 30], [0, 0]]


def test_rank_attention_refuses():
    weights = np.ones((4, 1), 'float32')
    def use(offset, shape=(None, 5)):
        run(lambda: [attended(fluid.data('x', [None, 1]), fluid.data('o', list(shape), 'int32'), weights)],
            {'x': np.ones((2, 1), 'float32'), 'o': np.int32(offset)})
    with pytest.raises(fluid.core.EnforceNotMet, match='rank 3 but MaxRank is 2'):
        use([[1, 3, 0, 0, 0]] * 2)
    with pytest.raises(fluid.core.EnforceNotMet, match='names row 2 but X has 2 rows'):
        use([[1, 1, 2, 0, 0]] * 2)
    with pytest.raises(fluid.core.EnforceNotMet, match=r'give X \[rows, columns\] and RankOffset \[rows, 5\]'):
        use([[1, 1, 0]] * 2, (None, 3))


@pytest.mark.parametrize('name, says', [
    ('search_pyramid_hash', 'Bloom filters'),
    ('load_persistables_for_increment', 'fluid.io.load_persistables'),
    ('load_persistables_for_inference', 'is_distributed=False'), ('convert_dist_to_sparse_program', 'is_distributed=False'),
    ('Compressor', 'slim.quantization')])
def test_what_is_not_built_says_what_to_use(name, says):
    thing = getattr(contrib, name)
    needed = [p for p in inspect.signature(thing).parameters.values() if p.default is p.empty and p.kind == p.POSITIONAL_OR_KEYWORD]
    with pytest.raises(NotImplementedError, match=says):
        thing(*[None] * len(needed))
