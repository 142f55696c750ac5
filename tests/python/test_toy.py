"""The documents' toy, op by op, as both releases build it."""
import numpy as np
import pytest

import paddle
import paddle.fluid as fluid

OPS_1_8 = [
    ('mul', {'X': ['X'], 'Y': ['fc_0.w_0']}, {'Out': ['fc_0.tmp_0']}, 0, []),
    ('elementwise_add', {'X': ['fc_0.tmp_0'], 'Y': ['fc_0.b_0']}, {'Out': ['fc_0.tmp_1']}, 0, []),
    ('mean', {'X': ['fc_0.tmp_1']}, {'Out': ['mean_0.tmp_0']}, 256, []),
    ('fill_constant', {}, {'Out': ['mean_0.tmp_0@GRAD']}, 257, []),
    ('mean_grad', {'X': ['fc_0.tmp_1'], 'Out@GRAD': ['mean_0.tmp_0@GRAD']},
     {'X@GRAD': ['fc_0.tmp_1@GRAD']}, 1, []),
    ('elementwise_add_grad',
     {'X': ['fc_0.tmp_0'], 'Y': ['fc_0.b_0'], 'Out@GRAD': ['fc_0.tmp_1@GRAD']},
     {'X@GRAD': ['fc_0.tmp_0@GRAD'], 'Y@GRAD': ['fc_0.b_0@GRAD']}, 1,
     ['fc_0.b_0', 'fc_0.b_0@GRAD']),
    ('mul_grad', {'X': ['X'], 'Y': ['fc_0.w_0'], 'Out@GRAD': ['fc_0.tmp_0@GRAD']},
     {'Y@GRAD': ['fc_0.w_0@GRAD']}, 1, ['fc_0.w_0', 'fc_0.w_0@GRAD']),
    ('sgd', {'Param': ['fc_0.b_0'], 'Grad': ['fc_0.b_0@GRAD'], 'LearningRate': ['learning_rate_0']},
     {'ParamOut': ['fc_0.b_0']}, 2, ['fc_0.b_0', 'fc_0.b_0@GRAD']),
    ('sgd', {'Param': ['fc_0.w_0'], 'Grad': ['fc_0.w_0@GRAD'], 'LearningRate': ['learning_rate_0']},
     {'ParamOut': ['fc_0.w_0']}, 2, ['fc_0.w_0', 'fc_0.w_0@GRAD']),
]


def listed(program):
    def slots(names, of):
        return {slot: of(slot) for slot in names if of(slot)}
    return [(op.type, slots(op.input_names, op.input), slots(op.output_names, op.output),
             op.attr('op_role'), op.attr('op_role_var')) for op in program.global_block().ops]


def build_fluid():
    x = fluid.layers.data(name='X', shape=[1], dtype='float32')
    loss = fluid.layers.mean(fluid.layers.fc(input=x, size=10))
    fluid.optimizer.SGD(learning_rate=0.01).minimize(loss)
    return loss


def build_static():
    x = paddle.static.data('X', [None, 1], 'float32')
    loss = paddle.mean(paddle.static.nn.fc(x, 10))
    paddle.optimizer.SGD(learning_rate=0.01).minimize(loss)
    return loss


def test_fluid_builds_what_1_8_builds(fresh):
    main, startup = fresh
    build_fluid()
    assert listed(main) == OPS_1_8
    assert [op.output('Out') for op in startup.global_block().ops] == [
        ['learning_rate_0'], ['fc_0.b_0'], ['fc_0.w_0']]
    assert main.global_block().ops[1].attr('axis') == 1
    assert main.global_block().ops[3].attr('value') == 1.0
    shapes = {v.name: v.shape for v in main.list_vars()}
    assert shapes['fc_0.w_0'] == (1, 10) and shapes['fc_0.b_0'] == (10,)
    assert shapes['fc_0.tmp_1'] == (-1, 10) and shapes['learning_rate_0'] == (1,)


def test_static_builds_what_2_4_builds(fresh):
    main, startup = fresh
    build_static()
    expected = [(op[0].replace('mean', 'reduce_mean'),) + op[1:] for op in OPS_1_8]
    assert listed(main) == expected
    assert [op.output('Out') for op in startup.global_block().ops] == [
        ['fc_0.w_0'], ['fc_0.b_0'], ['learning_rate_0']]


@pytest.mark.parametrize('build', [build_fluid, build_static])
def test_clone_for_test_keeps_the_forward_part(fresh, build):
    main, _ = fresh
    build()
    test = main.clone(for_test=True)
    assert [op.type for op in test.global_block().ops][:2] == ['mul', 'elementwise_add']
    assert len(test.global_block().ops) == 3
    assert {v.name for v in test.list_vars()} == {
        'X', 'fc_0.w_0', 'fc_0.b_0', 'fc_0.tmp_0', 'fc_0.tmp_1', 'mean_0.tmp_0'}


@pytest.mark.parametrize('build', [build_fluid, build_static])
def test_a_step_moves_the_parameters_by_the_rate(fresh, exe, build):
    main, startup = fresh
    loss = build()
    test = main.clone(for_test=True)
    exe.run(startup)
    feed = {'X': np.ones((4, 1), 'float32')}
    first, = exe.run(main, feed=feed, fetch_list=[loss])
    second, = exe.run(test, feed=feed, fetch_list=[loss])
    # Each of 10 weights and 10 biases has gradient 0.1, so the mean falls by 2 * 0.1 * 0.01.
    assert first.shape == (1,) and np.allclose(first - second, 0.002, atol=1e-6)
