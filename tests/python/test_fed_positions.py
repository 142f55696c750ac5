"""Gradients of ops that read positions out of tensors: those of the step, not of an earlier one."""
import numpy as np

import paddle.fluid as fluid


def test_slices_at_fed_positions(exe):
    x = fluid.data('x', [6, 2], 'float32')
    x.stop_gradient = False
    parts = []
    for name in 'ab':
        first = fluid.data(name, [1], 'int32')
        last = fluid.data(name + '_end', [1], 'int32')
        parts.append(fluid.layers.slice(x, axes=[0], starts=[first], ends=[last]))
    loss = fluid.layers.reduce_sum(parts[0]) + 10 * fluid.layers.reduce_sum(parts[1])
    gradient, = fluid.gradients(loss, x)
    for a, b in ((0, 0), (1, 0), (3, 0), (0, 2), (1, 2)):
        feed = {'x': np.ones((6, 2), 'float32')}
        for name, at in (('a', a), ('b', b)):
            feed[name] = np.array([at], 'int32')
            feed[name + '_end'] = np.array([at + 2], 'int32')
        wanted = np.zeros((6, 2), 'float32')
        wanted[a:a + 2] += 1
        wanted[b:b + 2] += 10
        found, = exe.run(feed=feed, fetch_list=[gradient])
        np.testing.assert_array_equal(found, wanted)


def test_slices_at_positions_that_a_loop_counts(exe):
    x = fluid.data('x', [4, 2], 'float32')
    x.stop_gradient = False
    one, four = (fluid.layers.fill_constant([1], 'int32', n) for n in (1, 4))

    def body(i, total):
        after = fluid.layers.elementwise_add(i, one)
        row = fluid.layers.slice(x, axes=[0], starts=[i], ends=[after])
        weight = fluid.layers.cast(after, 'float32')
        return after, total + fluid.layers.reduce_sum(row * row) * weight
    start = fluid.layers.fill_constant([1], 'int32', 0)
    nothing = fluid.layers.fill_constant([1], 'float32', 0.0)
    nothing.stop_gradient = False
    _, total = fluid.layers.while_loop(lambda i, total: fluid.layers.less_than(i, four), body, [start, nothing])
    gradient, = fluid.gradients(total, x)
    for scale in (1, 3):  # the second run is bound already
        at = scale * np.arange(1, 9, dtype='float32').reshape(4, 2)
        found, = exe.run(feed={'x': at}, fetch_list=[gradient])
        np.testing.assert_array_equal(found, 2 * at * np.arange(1, 5, dtype='float32')[:, None])
