"""DetectionMAP: of a batch and over batches. Numbers are the original's."""
import numpy as np
import pytest

import paddle.fluid as fluid

PLACE = fluid.CPUPlace()


def lod(rows, lengths):
    return fluid.create_lod_tensor(np.float32(rows), [lengths], PLACE)


FOUND = [[1, .9, .1, .1, .5, .5], [1, .8, .1, .1, .4, .5], [2, .7, .2, .2, .8, .8], [1, .3, .6, .6, .9, .9],
         [2, .6, .1, .1, .3, .3]]
FEED = {'found': lod(FOUND, [3, 2]), 'label': lod([[1], [2], [1], [2], [1]], [2, 3]),
        'box': lod([[.1, .1, .5, .5], [.2, .2, .7, .8], [.6, .6, .9, .9], [.1, .1, .3, .4], [.0, .0, .2, .2]], [2, 3]),
        'difficult': lod([[0], [0], [0], [1], [0]], [2, 3])}
LESS = lod([[1, .9, .1, .1, .5, .5], [1, .2, .1, .1, .4, .5], [2, .7, .2, .2, .8, .8]], [1, 2])

# evaluate_difficult, ap_version, overlap, with difficult: of a batch; over two; then, begun anew: of the lesser
# detections; and over them and the first ones.
CASES = [(True, 'integral', .5, True, [0.777778, 0.777778, 0.777778, 0.772222, 0.166667, 0.166667], 0.375),
         (True, '11point', .7, True, [0.545455, 0.545455, 0.545455, 0.545455, 0.181818, 0.181818], 0.318181842566),
         (False, 'integral', .7, True, [0.777778, 0.777778, 0.777778, 0.772222, 0.166667, 0.166667], 0.354166686535),
         (False, 'integral', .7, False, [0.527778, 0.527778, 0.527778, 0.522222, 0.166667, 0.166667], 0.291666686535),
         (False, '11point', .5, True, [0.772727, 0.772727, 0.772727, 0.772727, 0.181818, 0.181818], 0.386363685131)]


@pytest.mark.parametrize('difficult_counts, kind, overlap, with_difficult, wanted, after', CASES)
def test_of_a_batch_and_over_batches(difficult_counts, kind, overlap, with_difficult, wanted, after):
    main, startup = fluid.Program(), fluid.Program()
    with fluid.scope_guard(fluid.core.Scope()), fluid.unique_name.guard(), fluid.program_guard(main, startup):
        found, box = fluid.data('found', [None, 6], lod_level=1), fluid.data('box', [None, 4], lod_level=1)
        label, difficult = (fluid.data(name, [None, 1], lod_level=1) for name in ('label', 'difficult'))
        metric = fluid.metrics.DetectionMAP(found, label, box, difficult if with_difficult else None, class_num=3,
                                            overlap_threshold=overlap, evaluate_difficult=difficult_counts,
                                            ap_version=kind)
        exe = fluid.Executor(PLACE)
        exe.run(startup)

        def run(**feed):
            return [value.item() for value in exe.run(main, feed={**FEED, **feed}, fetch_list=list(metric.get_map_var()))]
        numbers = run() + run()
        metric.reset(exe)
        numbers += run(found=LESS)
        np.testing.assert_allclose(numbers, wanted, atol=1e-6)
        assert run()[1] == pytest.approx(after, rel=1e-6)


def test_the_evaluator_fetches_it():
    main, startup = fluid.Program(), fluid.Program()
    with fluid.scope_guard(fluid.core.Scope()), fluid.unique_name.guard(), fluid.program_guard(main, startup):
        found, box = fluid.data('found', [None, 6], lod_level=1), fluid.data('box', [None, 4], lod_level=1)
        metric = fluid.evaluator.DetectionMAP(found, fluid.data('label', [None, 1], lod_level=1), box, class_num=3)
        exe = fluid.Executor(PLACE)
        exe.run(startup)
        exe.run(main, feed={name: FEED[name] for name in ('found', 'box', 'label')})
        assert metric.eval(exe).item() == pytest.approx(0.777778, rel=1e-5)


def test_the_number_of_classes_is_needed():
    with fluid.program_guard(fluid.Program(), fluid.Program()), pytest.raises(ValueError, match='class_num'):
        fluid.metrics.DetectionMAP(fluid.data('found', [None, 6]), fluid.data('label', [None, 1]),
                                   fluid.data('box', [None, 4]))
