"""Predictors of saved models, by position, by name and through CompiledProgram."""
import subprocess
import sys
import threading

import numpy as np
import pytest

import paddle.fluid as fluid
from paddle import inference
from paddle.fluid import core

layers = fluid.layers


@pytest.fixture
def model(exe, fresh, tmp_path):
    """Saved twice: one file per variable, and two files. Two inputs, one of them with LoD."""
    words = layers.data('words', [1], dtype='int64', lod_level=1)
    x = layers.data('x', [2])
    pooled = layers.sequence_pool(layers.embedding(words, [10, 3]), 'sum')
    out = layers.fc([pooled, x], 4, act='softmax')
    exe.run(fresh[1])
    fluid.io.save_inference_model(str(tmp_path), ['words', 'x'], [out], exe)
    fluid.io.save_inference_model(str(tmp_path), ['words', 'x'], [out], exe, model_filename='model',
                                  params_filename='params')
    feed = {'words': fluid.create_lod_tensor(np.array([[1], [2], [3]]), [[2, 1]], fluid.CPUPlace()),
            'x': np.ones((2, 2), 'float32')}
    expected, = exe.run(fresh[0], feed=feed, fetch_list=[out])
    return tmp_path, expected


def tensors():
    words = core.PaddleTensor()
    words.lod = [[0, 2, 3]]
    words.data = core.PaddleBuf(np.array([[1], [2], [3]]))
    words.shape = [3, 1]
    words.dtype = core.PaddleDType.INT64
    return [words, core.PaddleTensor(np.ones((2, 2), 'float32'))]


def test_a_predictor_of_a_folder(model):
    config = core.NativeConfig()
    config.model_dir = str(model[0])
    predictor = core.create_paddle_predictor(config)
    out, = predictor.run(tensors())
    np.testing.assert_array_equal(out.as_ndarray(), model[1])
    assert out.shape == [2, 4] and out.dtype == core.PaddleDType.FLOAT32
    assert out.data.float_data() == model[1].ravel().tolist() and out.data.length() == 32
    np.testing.assert_array_equal(predictor.clone().run(tensors())[0].as_ndarray(), model[1])
    with pytest.raises(ValueError, match="2 inputs, \\['words', 'x'\\]; got 1"):
        predictor.run(tensors()[:1])


def test_a_predictor_of_two_files_with_inputs_by_name(model):
    config = core.AnalysisConfig(str(model[0] / 'model'), str(model[0] / 'params'))
    config.disable_gpu()
    config.switch_ir_optim(False)
    config.switch_specify_input_names(True)
    predictor = core.create_paddle_predictor(config)
    assert predictor.get_input_names() == ['words', 'x'] and predictor.get_input_tensor_shape()['x'] == [-1, 2]
    words, x = tensors()
    words.name, x.name = 'words', 'x'
    np.testing.assert_array_equal(predictor.run([x, words])[0].as_ndarray(), model[1])


def test_zero_copy(model):
    config = core.AnalysisConfig(str(model[0]))
    config.switch_use_feed_fetch_ops(False)
    predictor = core.create_paddle_predictor(config)
    with pytest.raises(RuntimeError, match='copy_from_cpu'):
        predictor.zero_copy_run()
    words = predictor.get_input_tensor('words')
    words.reshape([3, 1])
    words.set_lod([[0, 2, 3]])
    words.copy_from_cpu(np.array([1, 2, 3]))
    predictor.get_input_tensor('x').copy_from_cpu(np.ones((2, 2), 'float32'))
    out = predictor.get_output_tensor(predictor.get_output_names()[0])
    with pytest.raises(RuntimeError, match='zero_copy_run first'):
        out.copy_to_cpu()
    predictor.zero_copy_run()
    np.testing.assert_array_equal(out.copy_to_cpu(), model[1])
    with pytest.raises(ValueError, match='no z among'):
        predictor.get_input_tensor('z')


def test_a_compiled_program_may_be_a_predictor(exe, model):
    config = core.NativeConfig()
    config.model_dir = str(model[0])
    with fluid.scope_guard(fluid.Scope()):
        program, _, _ = fluid.io.load_inference_model(str(model[0]), exe)
        compiled = fluid.compiler.CompiledProgram(program)
        compiled._with_inference_optimize(config)
        assert compiled._is_inference
        out, = exe.run(compiled, feed=tensors())
    np.testing.assert_array_equal(out.as_ndarray(), model[1])
    with pytest.raises(AssertionError):
        compiled.with_data_parallel()
    with pytest.raises(AssertionError, match='got dict'):
        fluid.compiler.CompiledProgram(program)._with_inference_optimize({})


def test_what_a_config_cannot_have(model):
    config = core.AnalysisConfig(str(model[0]))
    config.enable_use_gpu(100, 0)
    if not core.is_compiled_with_cuda():
        with pytest.raises(core.UnavailableError, match='gpu:0 cannot be used'):
            core.create_paddle_predictor(config).run(tensors())
    with pytest.raises(ValueError, match='must name a model_dir'):
        core.create_paddle_predictor(core.NativeConfig())
    with pytest.raises(TypeError, match='NativeConfig'):
        core.create_paddle_predictor('model')
    with pytest.raises(TypeError, match='float16'):
        core.PaddleTensor(np.ones(2, 'float16'))
    with pytest.raises(TypeError, match='are int64, not float32'):
        core.PaddleBuf([1, 2]).float_data()


def net_of_handles(tmp_path, exe, fresh):
    x = layers.data('x', [4])
    out = layers.fc(layers.fc(x, 512, act='relu'), 3)
    exe.run(fresh[1])
    fluid.io.save_inference_model(str(tmp_path), ['x'], [out], exe)
    config = core.AnalysisConfig(str(tmp_path))
    config.switch_use_feed_fetch_ops(False)
    return config


def predicted(predictor, array):
    predictor.get_input_tensor('x').copy_from_cpu(array)
    predictor.zero_copy_run()
    return predictor.get_output_tensor(predictor.get_output_names()[0]).copy_to_cpu()


def test_handles_keep_what_they_were_given(exe, fresh, tmp_path):
    predictor = core.create_paddle_predictor(net_of_handles(tmp_path, exe, fresh))
    given = np.ones((2, 4), 'float32')
    first = predicted(predictor, given)
    kept = first.copy()
    given[:] = 7  # a copy was taken
    predictor.zero_copy_run()
    out = predictor.get_output_tensor(predictor.get_output_names()[0])
    again = out.copy_to_cpu()
    np.testing.assert_array_equal(again, kept)
    np.testing.assert_array_equal(first, kept)  # the second run wrote elsewhere
    again[:] = 0
    np.testing.assert_array_equal(out.copy_to_cpu(), out.copy_to_cpu())
    other = predicted(predictor, np.ones((5, 4), 'float32'))  # another batch
    np.testing.assert_allclose(other[0], kept[0], rtol=1e-5)
    with pytest.raises(TypeError, match='complex64'):
        predictor.get_input_tensor('x').copy_from_cpu(np.ones((2, 4), 'complex64'))


def test_data_that_is_shared_is_read_where_it_stands(exe, fresh, tmp_path):
    config = net_of_handles(tmp_path, exe, fresh)
    expected = core.create_paddle_predictor(config)
    predictor = inference.create_predictor(inference.Config(str(tmp_path)))
    handle, data = predictor.get_input_handle('x'), np.ones((2, 4), 'float32')
    handle.share_external_data(data)
    for number in (1, 3):
        data[:] = number
        assert predictor.run()
        out = predictor.get_output_handle(predictor.get_output_names()[0]).copy_to_cpu()
        np.testing.assert_array_equal(out, predicted(expected, data))
    handle.copy_from_cpu(np.zeros((2, 4), 'float32'))
    assert (data == 3).all() and handle.shape() == [2, 4] and handle.type() is inference.DataType.FLOAT32


def test_clones_predict_side_by_side(exe, fresh, tmp_path):
    first = core.create_paddle_predictor(net_of_handles(tmp_path, exe, fresh))
    predictors = [first] + [first.clone() for _ in range(3)]
    inputs = [np.random.RandomState(seed).rand(seed + 1, 4).astype('float32') for seed in range(4)]
    expected = [predicted(first, array).copy() for array in inputs]
    wrong = []

    def work(number):
        for _ in range(50):
            if not (predicted(predictors[number], inputs[number]) == expected[number]).all():
                wrong.append(number)
    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    # One memory for the parameters of all.
    name = next(var.name for var in first._program.list_vars() if var.persistable and 'w_0' in var.name)
    assert len({p._scope.find_var(name).get_tensor()._ptr() for p in predictors}) == 1


COUNTS_THREADS = '''
import os, sys
import numpy as np
from paddle.fluid import core
config = core.AnalysisConfig(sys.argv[1])
config.switch_use_feed_fetch_ops(False)
assert config.cpu_math_library_num_threads() == 1
config.set_cpu_math_library_num_threads(int(sys.argv[2]))
predictor = core.create_paddle_predictor(config)
predictor.get_input_tensor('x').copy_from_cpu(np.ones((64, 4), 'float32'))
before = len(os.listdir('/proc/self/task'))
predictor.zero_copy_run()
print(len(os.listdir('/proc/self/task')) - before)
'''


@pytest.mark.parametrize('threads', [1, 2, 3])
def test_a_predictor_takes_the_threads_it_is_given(exe, fresh, tmp_path, threads):
    net_of_handles(tmp_path, exe, fresh)
    ran = subprocess.run([sys.executable, '-c', COUNTS_THREADS, str(tmp_path), str(threads)], text=True,
                         capture_output=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
    assert int(ran.stdout) == threads - 1
    with pytest.raises(ValueError, match='at least'):
        core.AnalysisConfig(str(tmp_path)).set_cpu_math_library_num_threads(0)
