"""Sparse gradients, from the embedding to the optimizer: equal to the dense ones."""
import numpy as np
import pytest

import paddle.fluid as fluid

layers = fluid.layers
IDS = np.array([[1], [4], [1], [0], [4], [4]])  # rows named twice, and rows not named


def train(exe, is_sparse, optimizer, build=None, steps=3, padding_idx=None, before=lambda: None):
    """The table after some steps, and the type of its gradient."""
    with fluid.unique_name.guard(), fluid.scope_guard(fluid.Scope()):
        main, startup = fluid.Program(), fluid.Program()
        main.random_seed = startup.random_seed = 11
        with fluid.program_guard(main, startup):
            ids = fluid.data('ids', [None, 1], dtype='int64')
            if build is None:
                rows = layers.embedding(ids, [6, 3], is_sparse=is_sparse, padding_idx=padding_idx,
                                        param_attr='table')
                loss = layers.mean(layers.square(layers.fc(rows, 2, param_attr='w')) * 10.0)
            else:
                loss = build(ids, is_sparse)
            before()
            optimizer().minimize(loss)
        exe.run(startup)
        start = np.array(fluid.global_scope().find_var('table').get_tensor())
        for _ in range(steps):
            exe.run(main, feed={'ids': IDS}, fetch_list=[loss])
        return start, np.array(fluid.global_scope().find_var('table').get_tensor()), \
            main.global_block().var('table@GRAD').type


def same_as_dense(exe, optimizer, **kwargs):
    start, sparse, kind = train(exe, True, optimizer, **kwargs)
    _, dense, _ = train(exe, False, optimizer, **kwargs)
    assert kind == fluid.core.VarDesc.VarType.SELECTED_ROWS
    assert not np.array_equal(start, sparse)
    np.testing.assert_allclose(sparse, dense, rtol=1e-5, atol=1e-6)
    return start, sparse


@pytest.mark.parametrize('optimizer', [
    lambda: fluid.optimizer.SGD(0.1),
    lambda: fluid.optimizer.Momentum(0.1, 0.9),
    lambda: fluid.optimizer.Momentum(0.1, 0.9, use_nesterov=True),
    lambda: fluid.optimizer.Adagrad(0.1),
    lambda: fluid.optimizer.Adam(0.1),
    lambda: fluid.optimizer.RMSProp(0.1),
    lambda: fluid.optimizer.RMSProp(0.1, centered=True, momentum=0.5),
    lambda: fluid.optimizer.Lamb(0.1),
], ids=['sgd', 'momentum', 'nesterov', 'adagrad', 'adam', 'rmsprop', 'rmsprop_centered', 'lamb'])
def test_every_optimizer_with_a_sparse_form(exe, optimizer):
    same_as_dense(exe, optimizer)


def test_lazy_adam_leaves_rows_that_are_not_named(exe):
    def lazy():
        return fluid.optimizer.Adam(0.1, lazy_mode=True)
    start, end, _ = train(exe, True, lazy)
    named = sorted(set(IDS.ravel()))
    others = [row for row in range(6) if row not in named]
    assert not np.array_equal(start[named], end[named])
    np.testing.assert_array_equal(start[others], end[others])
    # Where every step names the same rows, lazy or not is one.
    _, eager, _ = train(exe, True, lambda: fluid.optimizer.Adam(0.1))
    np.testing.assert_allclose(end[named], eager[named], rtol=1e-5)


def test_adam_moves_rows_that_were_named_before(exe):
    ends = []
    for lazy in (False, True):
        with fluid.unique_name.guard(), fluid.scope_guard(fluid.Scope()):
            main, startup = fluid.Program(), fluid.Program()
            with fluid.program_guard(main, startup):
                ids = fluid.data('ids', [None, 1], dtype='int64')
                rows = layers.embedding(ids, [6, 3], is_sparse=True, param_attr='table')
                loss = layers.mean(layers.square(rows + 1.0))
                fluid.optimizer.Adam(0.1, lazy_mode=lazy).minimize(loss)
            exe.run(startup)
            exe.run(main, feed={'ids': np.array([[2]])})
            middle = np.array(fluid.global_scope().find_var('table').get_tensor())
            exe.run(main, feed={'ids': np.array([[3]])})
            ends.append(np.array(fluid.global_scope().find_var('table').get_tensor())[2] - middle[2])
    assert np.all(ends[0] != 0) and np.all(ends[1] == 0)


def test_the_padding_row_gets_nothing(exe):
    start, end = same_as_dense(exe, lambda: fluid.optimizer.SGD(0.1), padding_idx=4)
    np.testing.assert_array_equal(start[4], end[4])
    assert not np.array_equal(start[1], end[1])


@pytest.mark.parametrize('clip', [
    lambda: fluid.clip.GradientClipByGlobalNorm(0.05),
    lambda: fluid.clip.GradientClipByNorm(0.05),
    lambda: fluid.clip.GradientClipByValue(0.01),
], ids=['global_norm', 'norm', 'value'])
def test_clips_add_rows_up_first(exe, clip):
    same_as_dense(exe, lambda: fluid.optimizer.SGD(0.5, grad_clip=clip()))
    same_as_dense(exe, lambda: fluid.optimizer.SGD(0.5),
                  before=lambda: fluid.clip.set_gradient_clip(clip()))


@pytest.mark.parametrize('decay', [fluid.regularizer.L2Decay(0.1), fluid.regularizer.L1Decay(0.1)],
                         ids=['l2', 'l1'])
def test_decay_reaches_every_row(exe, decay):
    start, end = same_as_dense(exe, lambda: fluid.optimizer.SGD(0.1, regularization=decay))
    assert np.all(start[[2, 3, 5]] != end[[2, 3, 5]])


@pytest.mark.parametrize('optimizer', [lambda: fluid.optimizer.Adamax(0.1),
                                       lambda: fluid.optimizer.Ftrl(0.1),
                                       lambda: fluid.optimizer.Adadelta(0.1)])
def test_optimizers_without_a_sparse_form_say_so(exe, optimizer):
    with pytest.raises(ValueError, match='cannot apply a sparse gradient'):
        train(exe, True, optimizer)


def nce(ids, is_sparse):
    x = layers.embedding(ids, [6, 3], param_attr='words')
    return layers.mean(layers.nce(x, ids, 6, num_neg_samples=3, seed=5, is_sparse=is_sparse,
                                  param_attr='table', bias_attr='bias'))


def hsigmoid(ids, is_sparse):
    x = layers.embedding(ids, [6, 3], param_attr='words')
    return layers.mean(layers.hsigmoid(x, ids, 7, is_sparse=is_sparse, param_attr='table'))


@pytest.mark.parametrize('build', [nce, hsigmoid])
@pytest.mark.parametrize('optimizer', [lambda: fluid.optimizer.SGD(0.5),
                                       lambda: fluid.optimizer.Adagrad(0.1)], ids=['sgd', 'adagrad'])
def test_tables_of_many_classes(exe, build, optimizer):
    same_as_dense(exe, optimizer, build=build)


def test_one_table_read_twice(exe):
    def build(ids, is_sparse):
        rows = [layers.embedding(i, [6, 3], is_sparse=is_sparse, param_attr='table')
                for i in (ids, layers.cast(ids * 0, 'int64'))]
        return layers.mean(layers.square(rows[0]) + rows[1])
    same_as_dense(exe, lambda: fluid.optimizer.SGD(0.1), build=build)
    same_as_dense(exe, lambda: fluid.optimizer.Adam(0.1), build=build)


def test_a_sparse_and_a_dense_gradient_of_one_table_add_up_dense(exe):
    def build(ids, is_sparse):
        rows = layers.embedding(ids, [6, 3], is_sparse=is_sparse, param_attr='table')
        table = fluid.default_main_program().global_block().var('table')
        return layers.mean(layers.square(rows)) + layers.mean(table)
    _, sparse, _ = train(exe, True, lambda: fluid.optimizer.SGD(0.1), build=build)
    _, dense, _ = train(exe, False, lambda: fluid.optimizer.SGD(0.1), build=build)
    np.testing.assert_allclose(sparse, dense, rtol=1e-6)


def test_programs_with_sparse_gradients_survive_bytes_and_clones(exe, fresh):
    fresh[1].random_seed = 3
    ids = fluid.data('ids', [None, 1], dtype='int64')
    rows = layers.embedding(ids, [6, 3], is_sparse=True, param_attr='table')
    loss = layers.mean(layers.square(rows))
    fluid.optimizer.Adam(0.1).minimize(loss)
    copies = [fluid.Program.parse_from_string(fresh[0].desc.serialize_to_string()), fresh[0].clone()]
    ends = []
    for program in [fresh[0]] + copies:
        with fluid.scope_guard(fluid.Scope()):
            exe.run(fresh[1])
            exe.run(program, feed={'ids': IDS})
            ends.append(np.array(fluid.global_scope().find_var('table').get_tensor()))
        kind = program.global_block().var('table@GRAD').type
        assert kind == fluid.core.VarDesc.VarType.SELECTED_ROWS
    np.testing.assert_array_equal(ends[0], ends[1])
    np.testing.assert_array_equal(ends[0], ends[2])
    test = fresh[0].clone(for_test=True)
    assert 'table@GRAD' not in test.global_block().vars


@pytest.mark.parametrize('layer', ['softmax', 'fc', 'concat', 'top_k', 'layer_norm'])
def test_selected_rows_where_a_tensor_is_needed_are_named_with_line_and_fix(layer):
    layers = fluid.layers
    use = {'softmax': layers.softmax, 'fc': lambda rows: layers.fc(rows, 2), 'layer_norm': layers.layer_norm,
           'concat': lambda rows: layers.concat([rows, rows]), 'top_k': lambda rows: layers.topk(rows, 1)[0]}[layer]
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup):
        ids = fluid.data('ids', [None, 1], 'int64')
        loss = layers.mean(fluid.embedding(ids, [20, 4], is_sparse=True, param_attr='emb'))
        out = use(dict((param.name, grad) for param, grad in fluid.backward.append_backward(loss))['emb'])
    exe, scope = fluid.Executor(fluid.CPUPlace()), fluid.Scope()
    exe.run(startup, scope=scope)
    with pytest.raises(ValueError) as error:
        exe.run(main, feed={'ids': np.array([[1], [2]], 'int64')}, fetch_list=[out], scope=scope)
    text = str(error.value)
    assert 'emb@GRAD   selected rows of float32' in text and __file__ in text and 'is_sparse=False' in text
