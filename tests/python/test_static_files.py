"""paddle.save and paddle.load, paddle.inference, paddle.metric inside programs, AdamW and schedules on the host."""
import io
import os
import pickle

import numpy as np
import pytest

import paddle
import paddle.nn as nn
from paddle import inference, static


@pytest.fixture
def trained(tmp_path):
    """A program that has made a step, its input and output, and a model of it in files."""
    x, y = static.data('x', [None, 4], 'float32'), static.data('y', [None, 1], 'int64')
    scores = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3))(x)
    loss = nn.CrossEntropyLoss()(scores, y)
    evaluation = static.default_main_program().clone(for_test=True)
    paddle.optimizer.AdamW(0.1, weight_decay=0.1).minimize(loss)
    exe = static.Executor()
    exe.run(static.default_startup_program())
    feed = {'x': np.random.RandomState(1).rand(6, 4).astype('float32'), 'y': np.array([[0], [1], [2]] * 2)}
    exe.run(feed=feed, fetch_list=[loss])
    prefix = str(tmp_path / 'model')
    static.save_inference_model(prefix, [x], [scores], exe)
    return prefix, feed['x'], exe.run(evaluation, feed=feed, fetch_list=[scores])[0]


def test_states_come_back(trained, tmp_path):
    main, path = static.default_main_program(), str(tmp_path / 'states' / 'all.pdparams')
    state = main.state_dict()
    paddle.save(state, path)
    before = {name: np.array(value) for name, value in state.items()}
    assert any('moment1' in name for name in before) and 'linear_0.w_0' in before
    for name in before:
        main.global_block().var(name).set_value(before[name] * 0)
    main.set_state_dict(paddle.load(path))
    for name, value in before.items():
        np.testing.assert_array_equal(np.array(main.global_block().var(name).get_value()), value)
    arrays = paddle.load(path, return_numpy=True)
    assert isinstance(arrays['linear_0.w_0'], np.ndarray)
    with open(path, 'rb') as file:  # plain arrays: as the original writes them
        assert {name: type(value) for name, value in pickle.load(file).items()} == dict.fromkeys(before, np.ndarray)


def test_nested_values_programs_and_file_objects(trained):
    kept, main = io.BytesIO(), static.default_main_program()
    paddle.save({'epoch': 3, 'net': [main.global_block().var('linear_0.w_0'), (1.5, 'text')]}, kept)
    kept.seek(0)
    found = paddle.load(kept, return_numpy=True)
    assert found['epoch'] == 3 and found['net'][0].shape == (4, 5) and found['net'][1] == (1.5, 'text')
    kept = io.BytesIO()
    paddle.save(main, kept)
    kept.seek(0)
    assert [op.type for op in paddle.load(kept).global_block().ops] == [op.type for op in main.global_block().ops]


def test_a_tensor_by_itself_as_the_original_writes_it():
    class Written:
        def __reduce__(self):
            return eval, ('data', {'data': np.arange(3.0)})
    assert np.array(paddle.load(io.BytesIO(pickle.dumps(Written())))).tolist() == [0, 1, 2]


def test_files_run_no_code(tmp_path):
    class Evil:
        def __reduce__(self):
            return os.system, ('true',)

    class Sly:
        def __reduce__(self):
            return eval, ('__import__("os")', {})
    for what in (Evil(), Sly()):
        with pytest.raises(pickle.UnpicklingError):
            paddle.load(io.BytesIO(pickle.dumps(what)))
    with pytest.raises(ValueError, match='there is no file'):
        paddle.load(str(tmp_path / 'nothing'))
    with pytest.raises(NotImplementedError, match='use_binary_format'):
        paddle.save({}, str(tmp_path / 'x'), use_binary_format=True)


@pytest.mark.parametrize('files', [lambda p: (p,), lambda p: (p + '.pdmodel', p + '.pdiparams')])
def test_a_predictor_by_handles(trained, files):
    prefix, x, wanted = trained
    config = inference.Config(*files(prefix))
    config.disable_gpu()
    config.enable_memory_optim()
    config.switch_use_feed_fetch_ops(False)
    predictor = inference.create_predictor(config)
    assert predictor.get_input_names() == ['x'] and len(predictor.get_output_names()) == 1
    with pytest.raises(RuntimeError, match='have no value'):
        predictor.run()
    for rows in (6, 2):  # of another batch size each time
        handle = predictor.get_input_handle('x')
        handle.reshape([rows, 4])
        handle.copy_from_cpu(x[:rows])
        assert handle.shape() == [rows, 4] and handle.type() is inference.DataType.FLOAT32
        assert predictor.run() is True
        found = predictor.get_output_handle(predictor.get_output_names()[0])
        assert found.shape() == [rows, 3]
        np.testing.assert_allclose(found.copy_to_cpu(), wanted[:rows], rtol=1e-6)
    np.testing.assert_array_equal(predictor.run([x])[0], predictor.clone().run([x])[0])
    assert 'model' in config.summary()


def test_predictors_have_parameters_of_their_own(trained):
    prefix, x, wanted = trained
    pool = inference.PredictorPool(inference.Config(prefix), 2)
    static.default_main_program().global_block().var('linear_0.w_0').set_value(np.zeros([4, 5], 'float32'))
    for i in range(2):
        np.testing.assert_allclose(pool.retrieve(i).run([x])[0], wanted, rtol=1e-6)


@pytest.mark.parametrize('wrong, error, message', [
    (lambda prefix: inference.Config(prefix).enable_tensorrt_engine(), NotImplementedError, 'TensorRT'),
    (lambda prefix: inference.Config(prefix).enable_xpu(), NotImplementedError, 'XPU'),
    (lambda prefix: inference.create_predictor(prefix), TypeError, 'inference.Config'),
    (lambda prefix: inference.create_predictor(inference.Config()), ValueError, 'must name a model_dir'),
    (lambda prefix: inference.create_predictor(inference.Config(prefix)).get_input_handle('z'), ValueError, 'no z'),
    (lambda prefix: inference.create_predictor(inference.Config(prefix)).run([]), ValueError, 'has 1 inputs'),
    (lambda prefix: inference.create_predictor(inference.Config(prefix)).get_input_handle('x').copy_from_cpu('x'),
     TypeError, 'takes an array'),
])
def test_wrong_predictions_say_what_is_wrong(trained, wrong, error, message):
    with pytest.raises(error, match=message):
        wrong(trained[0])


def test_metrics_of_arrays_and_of_variables():
    shares = np.array([[0.1, 0.7, 0.2], [0.5, 0.3, 0.2], [0.2, 0.3, 0.5]], 'float32')
    labels = np.array([[1], [1], [0]])
    x, y = static.data('x', [None, 3], 'float32'), static.data('y', [None, 1], 'int64')
    metric = paddle.metric.Accuracy(topk=(1, 2))
    share = paddle.metric.accuracy(x, y, k=2)
    found, whole = static.Executor().run(feed={'x': shares, 'y': labels}, fetch_list=[metric.compute(x, y), share])
    assert found.tolist() == metric.compute(shares, labels).tolist() == [[1, 0], [0, 1], [0, 0]]
    assert metric.update(found) == [pytest.approx(1 / 3), pytest.approx(2 / 3)] and whole == pytest.approx(2 / 3)
    assert metric.name() == ['acc_top1', 'acc_top2']
    metric.reset()
    assert metric.accumulate() == [0.0, 0.0]

    class Unfinished(paddle.metric.Metric):
        pass
    with pytest.raises(TypeError, match='abstract'):
        Unfinished()


def test_adamw_shrinks_what_it_is_told_to():
    x = static.data('x', [None, 3], 'float32')
    layer = nn.Linear(3, 2)
    loss = paddle.mean(layer(x)) * 0.0
    paddle.optimizer.AdamW(0.1, weight_decay=0.5, apply_decay_param_fun=lambda name: name == 'linear_0.w_0').minimize(loss)
    exe = static.Executor()
    exe.run(static.default_startup_program())
    layer.bias.set_value(np.ones(2, 'float32'))
    before = np.array(layer.weight.get_value())
    exe.run(feed={'x': np.ones([1, 3], 'float32')})
    np.testing.assert_allclose(np.array(layer.weight.get_value()), before * (1 - 0.1 * 0.5), rtol=1e-6)
    np.testing.assert_array_equal(np.array(layer.bias.get_value()), 1)


@pytest.mark.parametrize('wrong, message', [
    (lambda lr: lr.LinearLR(0.1, 0), 'total_steps'),
    (lambda lr: lr.LinearLR(0.1, 5, start_factor=2.0), 'between 0 and 1'),
    (lambda lr: lr.CyclicLR(0.1, 0.5, 3, mode='square'), 'mode must be'),
    (lambda lr: lr.CyclicLR(0.1, 0.5, 3, scale_mode='epoch'), 'scale_mode'),
    (lambda lr: lr.OneCycleLR(0.1, 5, anneal_strategy='steep'), 'anneal_strategy'),
    (lambda lr: lr.OneCycleLR(0.1, 5, phase_pct=0.6, three_phase=True), 'phase_pct'),
    (lambda lr: lr.CosineAnnealingWarmRestarts(0.1, 0), 'T_0'),
])
def test_wrong_schedules_say_what_is_wrong(wrong, message):
    with pytest.raises(ValueError, match=message):
        wrong(paddle.optimizer.lr)


def test_a_cycle_ends():
    schedule = paddle.optimizer.lr.OneCycleLR(0.1, 3)
    with pytest.raises(ValueError, match='behind the last of 3'):
        for _ in range(5):
            schedule.step()
