"""fluid.evaluator: counts kept by the program, over several runs."""
import numpy as np
import pytest

import paddle.fluid as fluid

layers = fluid.layers


def sequences(rows, dtype='int64'):
    return fluid.create_lod_tensor(np.concatenate(rows).reshape(-1, 1).astype(dtype), [[len(r) for r in rows]],
                                   fluid.CPUPlace())


def test_chunks_of_several_batches(exe, fresh):
    found = layers.data('found', [1], dtype='int64', lod_level=1)
    label = layers.data('label', [1], dtype='int64', lod_level=1)
    evaluator = fluid.evaluator.ChunkEvaluator(found, label, 'IOB', 2)
    exe.run(fresh[1])
    for _ in range(2):  # B-0 I-0 O and B-1 O: one of two right, then all
        evaluator.reset(exe)
        exe.run(fresh[0], feed={'found': sequences([[0, 1, 4], [0, 4]]), 'label': sequences([[0, 1, 4], [2, 4]])})
        exe.run(fresh[0], feed={'found': sequences([[2, 4]]), 'label': sequences([[2, 4]])})
        precision, recall, f1 = evaluator.eval(exe)
        np.testing.assert_allclose([precision, recall, f1], 2 / 3, rtol=1e-6)
    batch = exe.run(fresh[0], feed={'found': sequences([[2, 4]]), 'label': sequences([[2, 4]])},
                    fetch_list=evaluator.metrics)
    assert [value.item() for value in batch] == [1, 1, 1]


def test_edit_distance_of_several_batches(exe, fresh):
    found = layers.data('found', [1], dtype='int64', lod_level=1)
    label = layers.data('label', [1], dtype='int64', lod_level=1)
    evaluator = fluid.evaluator.EditDistance(found, label)
    exe.run(fresh[1])
    evaluator.reset(exe)
    with pytest.raises(ValueError, match='seen no data'):
        evaluator.eval(exe)
    exe.run(fresh[0], feed={'found': sequences([[1, 2, 3], [4, 5]]), 'label': sequences([[1, 2, 3], [4, 6]])})
    exe.run(fresh[0], feed={'found': sequences([[1]]), 'label': sequences([[1]])})
    distance, error = evaluator.eval(exe)
    batch = exe.run(fresh[0], feed={'found': sequences([[1]]), 'label': sequences([[2]])},
                    fetch_list=evaluator.metrics)
    assert error.item() == pytest.approx(1 / 3)
    assert distance.item() == pytest.approx(0.5 / 3)  # normalised by the label's length
    assert [value.item() for value in batch] == [1, 1]
