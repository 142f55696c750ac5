"""Predictors of saved models, by position, by name and through CompiledProgram."""
import numpy as np
import pytest

import paddle.fluid as fluid
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
    with pytest.raises(NotImplementedError, match='no GPU'):
        core.create_paddle_predictor(config)
    with pytest.raises(ValueError, match='must name a model_dir'):
        core.create_paddle_predictor(core.NativeConfig())
    with pytest.raises(TypeError, match='NativeConfig'):
        core.create_paddle_predictor('model')
    with pytest.raises(TypeError, match='float16'):
        core.PaddleTensor(np.ones(2, 'float16'))
    with pytest.raises(TypeError, match='are int64, not float32'):
        core.PaddleBuf([1, 2]).float_data()
