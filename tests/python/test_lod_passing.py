"""Which operand gives a result its LoD: the first one, also when it has none."""
import numpy as np
import pytest

import paddle.fluid as fluid

layers = fluid.layers


@pytest.fixture
def plain():
    return layers.data('plain', [2])


@pytest.fixture
def rows():
    return layers.data('rows', [2], lod_level=1)


def lod_of(exe, var):
    rows = fluid.create_lod_tensor(np.ones((3, 2), 'float32'), [[2, 1]], fluid.CPUPlace())
    value, = exe.run(feed={'plain': np.ones((3, 2), 'float32'), 'rows': rows}, fetch_list=[var], return_numpy=False)
    return value.recursive_sequence_lengths()


@pytest.mark.parametrize('op', [lambda x, y: layers.sums([x, y]), layers.elementwise_add, layers.elementwise_mul,
                                lambda x, y: x - y])
def test_the_first_operand_gives_the_lod(exe, plain, rows, op):
    assert lod_of(exe, op(rows, plain)) == [[2, 1]]
    assert lod_of(exe, op(plain, rows)) == []


def test_what_is_repeated_for_every_row_has_no_say(exe, fresh, plain, rows):
    bias = layers.create_parameter([2], 'float32')
    one = layers.fill_constant([1], 'float32', 2.0)
    out = layers.elementwise_add(rows, bias, axis=-1) * one
    exe.run(fresh[1])
    assert lod_of(exe, out) == [[2, 1]]
    assert lod_of(exe, 1.0 - rows) == [[2, 1]]


def test_fc_of_two_inputs_has_the_lod_of_the_first(exe, fresh, plain, rows):
    first, second = layers.fc([rows, plain], 2, act='tanh'), layers.fc([plain, rows], 2, act='tanh')
    exe.run(fresh[1])
    assert lod_of(exe, first) == [[2, 1]]
    assert lod_of(exe, second) == []
