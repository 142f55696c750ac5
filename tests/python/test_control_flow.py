"""Loops and branches as programs write them: values, gradients, training, wrong uses."""
import numpy as np
import pytest

import paddle
import paddle.fluid as fluid
from paddle.fluid.layers.control_flow import ConditionalBlock

layers = fluid.layers


def value_of(exe, *outs, **feed):
    exe.run(fluid.default_startup_program())
    return exe.run(feed=feed, fetch_list=list(outs))


def trains(exe, loss, feed, steps=20, rate=0.1):
    fluid.optimizer.SGD(rate).minimize(loss)
    exe.run(fluid.default_startup_program())
    losses = [exe.run(feed=feed, fetch_list=[loss])[0].item() for _ in range(steps)]
    assert losses[-1] < 0.8 * losses[0], losses


def number(value, dtype='int64'):
    return layers.fill_constant([1], dtype, value)


# ---- While, while_loop

def sum_of_ten():
    i, n = number(0), number(10)
    total = number(0)
    more = layers.less_than(x=i, y=n)
    loop = layers.While(cond=more)
    with loop.block():
        layers.assign(layers.elementwise_add(total, i), total)
        layers.increment(x=i, value=1, in_place=True)
        layers.less_than(x=i, y=n, cond=more)
    return i, total


def test_while_runs_as_long_as_its_condition_holds(exe):
    i, total = sum_of_ten()
    assert [v.item() for v in value_of(exe, i, total)] == [10, 45]


def test_nested_whiles_share_outer_variables(exe):
    i, n = number(0), number(3)
    total = number(0)
    more = layers.less_than(i, n)
    with layers.While(more).block():
        j = number(0)
        inner = layers.less_than(j, i)
        with layers.While(inner).block():
            layers.increment(total)
            layers.increment(j)
            layers.less_than(j, i, cond=inner)
        layers.increment(i)
        layers.less_than(i, n, cond=more)
    assert value_of(exe, total)[0].item() == 3


def test_a_net_trains_through_a_while(exe):
    x = fluid.data('x', [4, 3])
    h = layers.fc(x, 3, act='tanh')
    w = layers.create_parameter([3, 3], 'float32', name='w')
    i, n = number(0), number(3)
    more = layers.less_than(i, n)
    with layers.While(more).block():
        layers.assign(layers.tanh(layers.matmul(h, w)), h)
        layers.increment(i)
        layers.less_than(i, n, cond=more)
    loss = layers.mean(layers.square(h))
    trains(exe, loss, {'x': np.random.RandomState(0).rand(4, 3).astype('float32')})


def test_while_refuses_conditions_that_are_not_one_bool():
    with pytest.raises(TypeError, match='condition'):
        layers.While(number(1))
    with pytest.raises(ValueError, match='one bool'):
        layers.While(layers.less_than(layers.zeros([2], 'int64'), layers.ones([2], 'int64')))


def test_an_exception_in_a_block_leaves_the_program_where_it_was(fresh):
    more = layers.less_than(number(0), number(1))
    before = len(fresh[0].global_block().ops)
    with pytest.raises(KeyError):
        with layers.While(more).block():
            raise KeyError
    assert fresh[0].current_block().idx == 0
    assert len(fresh[0].global_block().ops) == before


def test_while_loop_returns_its_variables_in_their_structure(exe):
    def body(i, pair):
        a, rest = pair
        return [i + 1, [a + rest['b'], {'b': a}]]

    start = [number(0), [number(1), {'b': number(0)}]]
    out = layers.while_loop(lambda i, pair: layers.less_than(i, number(6)), body, start)
    assert out is start
    i, (a, rest) = out
    assert [v.item() for v in value_of(exe, i, a, rest['b'])] == [6, 13, 8]


def test_while_loop_has_gradients(exe):
    x = fluid.data('x', [2], dtype='float64')
    x.stop_gradient = False
    one = number(1, 'float64')
    _, y = layers.while_loop(lambda i, y: i < 3, lambda i, y: [i + one, y * x],
                             [number(0, 'float64'), x * 1.0])
    grad, = fluid.gradients(layers.reduce_sum(y), x)
    given = np.array([2.0, -1.5])
    got = value_of(exe, y, grad, x=given)
    np.testing.assert_allclose(got[0], given ** 4)
    np.testing.assert_allclose(got[1], 4 * given ** 3)


def test_while_loop_wrong_uses():
    i = number(0)
    with pytest.raises(TypeError, match='cond of while_loop must be a function, got'):
        layers.while_loop(1, lambda i: i, [i])
    with pytest.raises(TypeError, match='loop_vars of while_loop is a list of'):
        layers.while_loop(lambda i: i, lambda i: i, i)
    with pytest.raises(ValueError, match='loop_vars is empty'):
        layers.while_loop(lambda: i, lambda: i, [])
    with pytest.raises(ValueError, match='a value for each of loop_vars'):
        layers.while_loop(lambda i: i < 1, lambda i: [i, i], [i])
    with pytest.raises(TypeError, match='bool'):
        layers.while_loop(lambda i: i, lambda i: i, [i])


# ---- cond, case, switch_case

def test_cond_computes_one_side(exe):
    x = fluid.data('x', [1])
    big = layers.cond(x > 1.0, lambda: (x * 2.0, {'k': x - 1.0}), lambda: (x + 10.0, {'k': x}))
    assert isinstance(big, tuple)
    assert [v.item() for v in value_of(exe, big[0], big[1]['k'], x=np.float32([3]))] == [6, 2]
    assert [v.item() for v in value_of(exe, big[0], big[1]['k'], x=np.float32([1]))] == [11, 1]
    assert layers.cond(x > 1.0, lambda: None, lambda: None) is None


def test_cond_gradients_go_the_way_that_was_taken(exe):
    x = fluid.data('x', [1], dtype='float64')
    x.stop_gradient = False
    y = layers.cond(x > 0.0, lambda: layers.square(x), lambda: x * 5.0)
    grad, = fluid.gradients(y, x)
    assert value_of(exe, grad, x=np.array([3.0]))[0].item() == 6
    assert value_of(exe, grad, x=np.array([-3.0]))[0].item() == 5


def test_a_net_trains_through_cond_with_parameters_on_both_sides(exe):
    x = fluid.data('x', [None, 4])
    flag = fluid.data('flag', [1], dtype='bool')
    y = layers.cond(flag, lambda: layers.fc(x, 1), lambda: layers.fc(layers.fc(x, 3, act='tanh'), 1))
    loss = layers.mean(layers.square(y - 1.0))
    data = np.random.RandomState(1).rand(6, 4).astype('float32')
    trains(exe, loss, {'x': data, 'flag': np.array([True])})
    losses = [exe.run(feed={'x': data, 'flag': np.array([False])}, fetch_list=[loss])[0].item()
              for _ in range(20)]
    assert losses[-1] < losses[0]


def test_cond_wrong_uses():
    x = fluid.data('x', [1])
    with pytest.raises(TypeError, match='pred'):
        layers.cond(x, lambda: x, lambda: x)
    with pytest.raises(TypeError, match='true_fn of cond must be a function, got int'):
        layers.cond(x > 1.0, 3, lambda: x)
    with pytest.raises(ValueError, match='true_fn returns 1 variables and false_fn 0'):
        layers.cond(x > 1.0, lambda: x, lambda: None)
    with pytest.raises(ValueError, match='must return alike'):
        layers.cond(x > 1.0, lambda: [x, [x]], lambda: [x, x])
    with pytest.warns(UserWarning, match='float32 from true_fn and int64 from false_fn: both are turned into float32'):
        layers.cond(x > 1.0, lambda: x, lambda: number(1))
    with pytest.raises(TypeError, match='returned a int'):
        layers.cond(x > 1.0, lambda: 3, lambda: 4)


def test_errors_in_a_branch_name_the_line_in_the_branch():
    x = fluid.data('x', [2, 3])

    def branch():
        return layers.matmul(x, x)  # the line to name
    with pytest.raises(ValueError, match='the line to name'):
        layers.cond(layers.reduce_sum(x) > 1.0, branch, lambda: x)


def test_case_takes_the_first_that_holds(exe):
    x = fluid.data('x', [1])
    pairs = [(x < 1.0, lambda: number(1)), (x < 2.0, lambda: number(2))]
    with_default = layers.case(pairs, default=lambda: number(9))
    without = layers.case(pairs)
    for given, expected in ((0, [1, 1]), (1.5, [2, 2]), (5, [9, 2])):
        assert [v.item() for v in value_of(exe, with_default, without, x=np.float32([given]))] == expected


def test_case_wrong_uses():
    x = fluid.data('x', [1])
    with pytest.raises(TypeError, match='pred_fn_pairs of case is a list of'):
        layers.case(x < 1.0)
    with pytest.raises(TypeError, match='pairs of a variable and a function'):
        layers.case([[x < 1.0, lambda: x]])
    with pytest.raises(TypeError, match='must be a function'):
        layers.case([(x < 1.0, x)])
    with pytest.raises(TypeError, match='default of case must be a function'):
        layers.case([(x < 1.0, lambda: x)], default=x)
    with pytest.raises(ValueError, match='pred_fn_pairs is empty'):
        layers.case([])


@pytest.mark.parametrize('dtype', ['uint8', 'int32', 'int64'])
def test_switch_case_takes_the_branch_of_its_number(exe, dtype):
    index = fluid.data('index', [1], dtype=dtype)
    by_dict = layers.switch_case(index, {1: lambda: number(10), 3: lambda: number(30)},
                                 default=lambda: number(99))
    by_list = layers.switch_case(index, [lambda: number(0), lambda: number(1)])
    by_pairs = layers.switch_case(index, [(1, lambda: number(5)), (2, lambda: number(6))])
    for given, expected in ((1, [10, 1, 5]), (3, [30, 1, 6]), (0, [99, 0, 6])):
        got = value_of(exe, by_dict, by_list, by_pairs, index=np.array([given], dtype))
        assert [v.item() for v in got] == expected


def test_switch_case_wrong_uses():
    index, x = number(1), fluid.data('x', [1])
    with pytest.raises(TypeError, match='branch_index'):
        layers.switch_case(x, [lambda: x])
    with pytest.raises(TypeError, match='branch_fns of switch_case is a list of functions'):
        layers.switch_case(index, lambda: x)
    with pytest.raises(TypeError, match='numbered by ints, and one has a str'):
        layers.switch_case(index, [('a', lambda: x)])
    with pytest.raises(ValueError, match='two functions for 1'):
        layers.switch_case(index, [(1, lambda: x), (1, lambda: x)])


# ---- Switch, ConditionalBlock, IfElse

def test_switch_assigns_in_one_case(exe):
    step = fluid.data('step', [1])
    rate = layers.create_global_var([1], 0.0, 'float32', persistable=True)
    with layers.Switch() as switch:
        with switch.case(step < 2.0):
            layers.assign(number(1, 'float32'), rate)
        with switch.case(step < 4.0):
            layers.assign(number(2, 'float32'), rate)
        with switch.default():
            layers.assign(number(3, 'float32'), rate)
    for given, expected in ((1, 1), (3, 2), (8, 3)):
        assert value_of(exe, rate, step=np.float32([given]))[0].item() == expected
    with pytest.raises(ValueError, match='outside of its switch'):
        switch.case(step < 2.0)
    with pytest.raises(ValueError, match='before any case'):
        with layers.Switch() as empty, empty.default():
            pass


def test_a_conditional_block_runs_when_its_input_has_elements(exe):
    x = fluid.data('x', [-1, 1])
    out = layers.create_tensor('float32')
    block = ConditionalBlock([x])
    with block.block():
        layers.assign(layers.fc(x, 10), out)
    loss = layers.mean(out)
    fluid.backward.append_backward(loss)
    got = value_of(exe, out, fluid.default_main_program().global_block().var('fc_0.w_0@GRAD'),
                   x=np.float32([[2]]))
    assert got[0].shape == (1, 10) and got[1].shape == (1, 10)


def test_a_conditional_block_needs_one_bool_when_scalar():
    with pytest.raises(TypeError, match='condition'):
        layers.ConditionalBlock([number(1)], is_scalar_condition=True)


def if_else(x, limit):
    is_small = layers.less_than(x, limit)
    by_row = layers.IfElse(is_small)
    with by_row.true_block():
        by_row.output(layers.fc(by_row.input(x), 1, param_attr='small', bias_attr=False))
    with by_row.false_block():
        rows = by_row.input(x)
        by_row.output(layers.fc(rows, 1, param_attr='large', bias_attr=False))
    return by_row


def test_if_else_sends_each_row_its_way(exe):
    x = fluid.data('x', [None, 1])
    limit = layers.fill_constant_batch_size_like(x, [-1, 1], 'float32', 5.0)
    out = if_else(x, limit)()
    assert isinstance(out, list) and len(out) == 1
    exe.run(fluid.default_startup_program())
    fluid.global_scope().find_var('small').get_tensor().set(np.float32([[-1]]), fluid.CPUPlace())
    fluid.global_scope().find_var('large').get_tensor().set(np.float32([[10]]), fluid.CPUPlace())
    got, = exe.run(feed={'x': np.float32([[1], [7], [2], [9]])}, fetch_list=out)
    assert got.ravel().tolist() == [-1, 70, -2, 90]


def test_a_net_trains_through_if_else(exe):
    x = fluid.data('x', [None, 1])
    limit = layers.fill_constant_batch_size_like(x, [-1, 1], 'float32', 0.5)
    loss = layers.mean(layers.square(if_else(x, limit)()[0] - 1.0))
    trains(exe, loss, {'x': np.random.RandomState(0).rand(8, 1).astype('float32')})


def test_if_else_wrong_uses():
    x = fluid.data('x', [None, 1])
    mask = x < 1.0
    by_row = layers.IfElse(mask)
    with pytest.raises(ValueError, match='outside of true_block'):
        by_row.input(x)
    with pytest.raises(ValueError, match='outside of true_block'):
        by_row.output(x)
    with pytest.raises(ValueError, match='neither block has an output'):
        by_row()
    with pytest.raises(ValueError, match='one in the other'):
        with by_row.true_block():
            with by_row.false_block():
                pass
    with pytest.raises(TypeError, match='cond'):
        layers.IfElse(x)


# ---- is_empty, Print, Assert

def test_is_empty_writes_the_condition_it_is_given(exe):
    x = fluid.data('x', [-1, 2])
    flag = layers.create_tensor('bool')
    assert layers.is_empty(x, cond=flag) is flag
    other = layers.is_empty(x)
    assert value_of(exe, flag, other, x=np.zeros((0, 2), 'float32')) == [True, True]
    assert value_of(exe, flag, other, x=np.zeros((1, 2), 'float32')) == [False, False]


def test_print_shows_its_input_and_passes_it_on(exe, capfd):
    x = fluid.data('x', [2])
    out = layers.Print(x, message='here it is', summarize=1) * 2.0
    assert value_of(exe, out, x=np.float32([3, 4]))[0].tolist() == [6, 8]
    assert 'here it is' in ''.join(capfd.readouterr())


def test_assert_stops_the_run_and_shows_data(exe):
    x = fluid.data('x', [1])
    layers.Assert(x < 5.0, [x])
    out = x * 2.0
    assert value_of(exe, out, x=np.float32([1]))[0].item() == 2
    with pytest.raises(Exception, match='7'):
        value_of(exe, out, x=np.float32([7]))


# ---- optimizers in branches

def rate(name, value):
    return layers.create_global_var([1], value, 'float32', persistable=True, name=name)


def two_optimizers(loss_in_branch):
    """Momentum where `which` is odd, SGD on another loss where it is even."""
    x, y = fluid.data('x', [None, 3]), fluid.data('y', [None, 1])
    which = fluid.data('which', [1], 'int32')
    out = layers.fc(layers.fc(x, 4, act='tanh', param_attr='w'), 1, param_attr='v')

    def first():
        return layers.mean(layers.square_error_cost(out, y))

    def second():
        return layers.reduce_sum(layers.abs(out - y))

    losses = (None, None) if loss_in_branch else (first(), second())

    def minimized(optimizer, loss, build):
        loss = build() if loss is None else loss
        optimizer.minimize(loss)
        return loss

    fast = fluid.optimizer.Momentum(rate('fast', 0.1), 0.9)
    slow = fluid.optimizer.SGD(rate('slow', 0.01))
    odd = layers.elementwise_mod(which, layers.fill_constant([1], 'int32', 2)) == 1
    return layers.cond(odd, lambda: minimized(fast, losses[0], first),
                       lambda: minimized(slow, losses[1], second))


def one_optimizer(build, make):
    """A program that minimizes one loss at the top, on the variables of the other."""
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        x, y = fluid.data('x', [None, 3]), fluid.data('y', [None, 1])
        out = layers.fc(layers.fc(x, 4, act='tanh', param_attr='w'), 1, param_attr='v')
        make().minimize(build(out, y))
    return main


def weights(scope):
    return {name: np.array(scope.find_var(name).get_tensor()).copy() for name in ('w', 'v')}


@pytest.mark.parametrize('loss_in_branch', [True, False])
def test_the_branch_that_is_taken_updates_with_its_optimizer(exe, loss_in_branch, fresh):
    loss = two_optimizers(loss_in_branch)
    exe.run(fresh[1])
    scope = fluid.global_scope()
    random = np.random.RandomState(3)
    feed = {'x': random.rand(8, 3).astype('float32'), 'y': random.rand(8, 1).astype('float32')}
    alone = {
        1: one_optimizer(lambda out, y: layers.mean(layers.square_error_cost(out, y)),
                         lambda: fluid.optimizer.Momentum(rate('fast', 0.1), 0.9)),
        0: one_optimizer(lambda out, y: layers.reduce_sum(layers.abs(out - y)),
                         lambda: fluid.optimizer.SGD(rate('slow', 0.01))),
    }
    for which in (1, 0, 1, 1, 0):
        state = {name: np.array(scope.find_var(name).get_tensor()).copy()
                 for name in scope.local_var_names() if scope.find_var(name).get_tensor()._is_initialized()}
        exe.run(feed=dict(feed, which=np.int32([which])), fetch_list=[loss])
        found = weights(scope)
        for name, value in state.items():
            scope.find_var(name).get_tensor().set(value, fluid.CPUPlace())
        exe.run(alone[which], feed=feed)
        for name, value in weights(scope).items():
            np.testing.assert_allclose(found[name], value, rtol=1e-6, err_msg=name)


def test_a_test_program_keeps_branches_and_loses_their_updates(exe, fresh, tmp_path):
    loss = two_optimizers(loss_in_branch=True)
    test = fresh[0].clone(for_test=True)
    kinds = {op.type for block in test.blocks for op in block.ops}
    assert 'conditional_block' in kinds
    assert not kinds & {'sgd', 'momentum', 'mean_grad', 'tanh_grad'}
    assert not [v.name for v in test.list_vars() if 'velocity' in v.name or '@GRAD' in v.name]
    exe.run(fresh[1])
    feed = {'x': np.ones((2, 3), 'float32'), 'y': np.ones((2, 1), 'float32'), 'which': np.int32([1])}
    before = weights(fluid.global_scope())
    first, = exe.run(test, feed=feed, fetch_list=[loss.name])
    again, = exe.run(feed=feed, fetch_list=[loss])
    assert first == again
    assert not np.array_equal(before['w'], weights(fluid.global_scope())['w'])
    copy = fluid.Program.parse_from_string(fresh[0].desc.serialize_to_string())
    later, = exe.run(copy, feed=feed, fetch_list=[loss.name])
    assert later < first


def test_several_devices_refuse_an_optimizer_in_a_branch(exe, fresh):
    loss = two_optimizers(loss_in_branch=True)
    exe.run(fresh[1])
    feed = {'x': np.ones((4, 3), 'float32'), 'y': np.ones((4, 1), 'float32')}
    compiled = fluid.CompiledProgram(fresh[0]).with_data_parallel(
        loss_name=loss.name, places=[fluid.CPUPlace()] * 2)
    with pytest.raises(NotImplementedError, match='inside a loop or branch'):
        exe.run(compiled, feed=[dict(feed, which=np.int32([1]))] * 2, fetch_list=[loss])
    alone = fluid.CompiledProgram(fresh[0]).with_data_parallel(
        loss_name=loss.name, places=[fluid.CPUPlace()])
    exe.run(alone, feed=dict(feed, which=np.int32([1])), fetch_list=[loss])


# ---- programs with sub-blocks are saved, loaded and cloned

def test_sub_blocks_survive_clone_and_inference_models(exe, tmp_path, fresh):
    x = fluid.data('x', [None, 3])
    h = layers.fc(x, 3)
    i, n = number(0), number(2)
    more = layers.less_than(i, n)
    with layers.While(more).block():
        layers.assign(layers.cond(layers.reduce_sum(h) > 0.0, lambda: h * 0.5, lambda: h - 1.0), h)
        layers.increment(i)
        layers.less_than(i, n, cond=more)
    test = fresh[0].clone(for_test=True)
    fluid.optimizer.SGD(0.0).minimize(layers.mean(h))
    exe.run(fresh[1])
    feed = {'x': np.random.RandomState(0).randn(2, 3).astype('float32')}
    expected, = exe.run(feed=feed, fetch_list=[h])
    np.testing.assert_array_equal(exe.run(test, feed=feed, fetch_list=[h.name])[0], expected)
    copy = fluid.Program.parse_from_string(fresh[0].desc.serialize_to_string())
    np.testing.assert_array_equal(exe.run(copy, feed=feed, fetch_list=[h.name])[0], expected)
    fluid.io.save_inference_model(str(tmp_path), ['x'], [h], exe)
    with fluid.scope_guard(fluid.Scope()):
        loaded, feeds, fetches = fluid.io.load_inference_model(str(tmp_path), exe)
        assert loaded.num_blocks == 4 and feeds == ['x']
        np.testing.assert_array_equal(exe.run(loaded, feed=feed, fetch_list=fetches)[0], expected)
    fluid.save(fresh[0], str(tmp_path / 'all'))
    exe.run(fresh[1])
    fluid.load(fresh[0], str(tmp_path / 'all'))
    np.testing.assert_array_equal(exe.run(feed=feed, fetch_list=[h])[0], expected)


def test_static_names_are_the_same_layers(exe):
    index = number(1)
    out = paddle.static.nn.switch_case(index, [lambda: number(4), lambda: number(5)])
    i, = paddle.static.nn.while_loop(lambda i: i < 4, lambda i: i + 1, [number(0)])
    side = paddle.static.nn.cond(i < 4, lambda: number(1), lambda: number(2))
    first = paddle.static.nn.case([(i < 4, lambda: number(1))], default=lambda: number(7))
    assert [v.item() for v in value_of(exe, out, i, side, first)] == [5, 4, 2, 7]
