"""Layers that draw numbers, and layers that no record of the original can be had of."""
import numpy as np
import pytest

import paddle.fluid as fluid

L = fluid.layers


def run(outs, feed=None, times=1):
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    found = [exe.run(feed=feed or {}, fetch_list=outs, return_numpy=False) for _ in range(times)]
    found = [[np.array(tensor) for tensor in tensors] for tensors in found]
    return found[0] if times == 1 else found


@pytest.fixture(autouse=True)
def fresh():
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.scope_guard(fluid.Scope()):
        yield


def test_uniform_draws_between_its_bounds():
    drawn, = run([L.Uniform([-1.0, 2.0], [0.0, 4.0]).sample([2000], seed=5)])
    assert drawn.shape == (2000, 2)
    assert (drawn >= [-1, 2]).all() and (drawn < [0, 4]).all()
    assert np.allclose(drawn.mean(axis=0), [-0.5, 3.0], atol=0.1)


def test_normal_draws_around_loc():
    drawn, = run([L.Normal(3.0, 0.5).sample([50, 40], seed=5)])
    assert drawn.shape == (50, 40)
    assert abs(drawn.mean() - 3) < 0.05 and abs(drawn.std() - 0.5) < 0.05


def test_samples_of_variables_follow_the_run():
    loc = fluid.data('loc', [None, 2], 'float32')
    drawn, = run([L.Normal(loc, L.fill_constant([1], 'float32', 0.01)).sample([5])],
                 {'loc': np.array([[0, 10], [20, 30], [40, 50]], 'float32')})
    assert drawn.shape == (5, 3, 2)
    assert np.abs(drawn - [[0, 10], [20, 30], [40, 50]]).max() < 0.1


def test_a_distribution_says_what_it_cannot_do():
    logits = fluid.data('logits', [None, 3], 'float32')
    with pytest.raises(NotImplementedError, match='Categorical has no sample'):
        L.Categorical(logits).sample()
    with pytest.raises(TypeError, match='takes another Normal'):
        L.Normal(0.0, 1.0).kl_divergence(L.Uniform(0.0, 1.0))


def test_randperm_has_every_number_once():
    first, second = run([L.randperm(50), L.randperm(50, dtype='int32')])
    assert sorted(first) == sorted(second) == list(range(50))
    assert second.dtype == np.int32 and list(first) != list(range(50))


def test_random_crop_cuts_elsewhere_in_every_run():
    x = fluid.data('x', [4, 9, 9], 'float32')
    image = np.arange(81, dtype='float32').reshape(9, 9)
    cuts = run([L.random_crop(x, [3, 3], seed=3)], {'x': np.stack([image] * 4)}, times=6)
    corners = {tuple(cut[0][:, 0, 0]) for cut in cuts}
    assert len(corners) > 3
    for cut, in cuts:
        for one in cut:
            assert np.array_equal(one - one[0, 0], image[:3, :3])


def test_lod_append_refuses_a_level_that_does_not_fit():
    x = fluid.data('x', [None, 1], 'float32', lod_level=1)
    rows = fluid.create_lod_tensor(np.zeros((6, 1), 'float32'), [[2, 4]], fluid.CPUPlace())
    with pytest.raises(ValueError, match='level 0 ends at 6 but level 1 has 2 sequences'):
        run([L.lod_append(x, [0, 2, 6])], {'x': rows})


def test_hash_tells_rows_apart():
    x = fluid.data('x', [None, 2], 'int64')
    found, = run([L.hash(x, 1000, num_hash=3)], {'x': np.array([[1, 2], [1, 2], [2, 1]], 'int64')})
    assert found.shape == (3, 3, 1)
    assert np.array_equal(found[0], found[1]) and not np.array_equal(found[0], found[2])
    assert len(set(found[0].ravel())) == 3 and (0 <= found).all() and (found < 1000).all()


def test_targets_at_random_are_as_many_as_are_wanted():
    corners = np.arange(40, dtype='float32')[:, None] % 8 * 10
    anchors = np.concatenate([corners, corners, corners + 9, corners + 9], axis=1)
    place = fluid.CPUPlace()
    outs = L.rpn_target_assign(
        fluid.data('boxes', [None, 40, 4], 'float32'), fluid.data('scores', [None, 40, 1], 'float32'),
        fluid.data('anchors', [40, 4], 'float32'), None, fluid.data('truth', [None, 4], 'float32', lod_level=1),
        fluid.data('crowd', [None, 1], 'int32', lod_level=1), fluid.data('info', [None, 3], 'float32'),
        rpn_batch_size_per_im=6, rpn_fg_fraction=0.5)
    feed = {'boxes': np.zeros((1, 40, 4), 'float32'), 'scores': np.arange(40, dtype='float32').reshape(1, 40, 1),
            'anchors': anchors, 'info': np.array([[90, 90, 1]], 'float32'),
            'truth': fluid.create_lod_tensor(anchors[:1], [[1]], place),
            'crowd': fluid.create_lod_tensor(np.zeros((1, 1), 'int32'), [[1]], place)}
    runs = run(list(outs), feed, times=4)
    for scores, boxes, labels, codes, weights in runs:
        assert list(labels[:, 0]) == [1] * 3 + [0] * 3
        assert boxes.shape == codes.shape == weights.shape == (3, 4)
        assert all(score % 8 == 0 for score in scores[:3, 0])  # the anchors that are the true box
    assert len({tuple(scores[:, 0]) for scores, *_ in runs}) > 1


@pytest.mark.parametrize('wrong, says', [
    (lambda x: L.deformable_conv(x, x, None, 4, 3), 'needs a mask'),
    (lambda x: L.generate_proposal_labels(x, x, x, x, x), 'needs class_nums'),
    (lambda x: L.collect_fpn_proposals([x], [x], 2, 3, 5), 'there are 2 levels'),
    (lambda x: L.crop_tensor(x), 'needs shape'),
    (lambda x: L.lod_append(x, None), 'needs x and level'),
    (lambda x: L.image_resize(x, [2, 2], resample='CUBIC'), 'resample is'),
    (lambda x: L.resize_trilinear(x, [2, 2, 2], data_format='NCHW'), 'NCDHW or NDHWC'),
    (lambda x: L.adaptive_pool3d(x, 2, 'sum'), 'pool_type is'),
    (lambda x: L.randperm(3, device='tpu'), 'device must be'),
])
def test_wrong_uses_are_named(wrong, says):
    x = fluid.data('x', [None, 3, 4, 4], 'float32')
    with pytest.raises(ValueError, match=says):
        wrong(x)


def test_hash_gives_as_many_numbers_below_its_size():
    ids = fluid.data('ids', [None, 2], 'int64')
    feed = {'ids': np.array([[1, 2], [3, 4], [1, 2]])}
    found, again = run([L.hash(ids, hash_size=100, num_hash=4), L.hash(ids, hash_size=100, num_hash=2)], feed)
    assert found.shape == (3, 4, 1) and (found >= 0).all() and (found < 100).all()
    assert (found[0] == found[2]).all() and (found[0] != found[1]).any()
    assert (found[:, :2] == again).all() and len(set(found[0, :, 0])) > 1


def test_ssd_loss_takes_a_head_over_batches_of_any_size():
    image = fluid.data('image', [None, 3, 16, 16], 'float32')
    places, classes, priors, variances = L.multi_box_head(
        [L.conv2d(image, 4, 3, stride=4, padding=1)], image, 16, 3, [[1.0]], min_sizes=[4.0])
    lengths = [[1, 2]]
    boxes = np.array([[0.1, 0.1, 0.4, 0.4], [0.5, 0.5, 0.8, 0.8], [0.1, 0.6, 0.3, 0.9]], 'float32')
    loss = L.ssd_loss(places, classes, fluid.data('boxes', [None, 4], 'float32', lod_level=1),
                      fluid.data('kinds', [None, 1], 'int32', lod_level=1), priors, variances)
    place = fluid.CPUPlace()
    found, = run([loss], {'image': np.ones((2, 3, 16, 16), 'float32'),
                          'boxes': fluid.create_lod_tensor(boxes, lengths, place),
                          'kinds': fluid.create_lod_tensor(np.array([[1], [2], [1]], 'int32'), lengths, place)})
    assert found.shape == (2, 1) and np.isfinite(found).all() and (found > 0).all()
