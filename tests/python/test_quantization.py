"""Quantised training: the ops that rewriting puts in, training on them, and the program on whole numbers. Numbers
are the original's."""
import numpy as np
import pytest

import paddle.fluid as fluid
from paddle.fluid import core
from paddle.fluid.contrib.quantize import QuantizeTranspiler
from paddle.fluid.contrib.slim import quantization as q
from paddle.fluid.contrib.slim.quantization.utils import load_variable_data, quant_tensor
from paddle.fluid.framework import IrGraph

PLACE = fluid.CPUPlace()
FEED = {'x': np.linspace(-1, 2, 32).reshape(2, 1, 4, 4).astype('float32')}


def net(minimize=False):
    main, startup = fluid.Program(), fluid.Program()
    with fluid.unique_name.guard(), fluid.program_guard(main, startup):
        image = fluid.data('x', [None, 1, 4, 4])
        hidden = fluid.layers.relu(fluid.layers.conv2d(image, 2, 3, bias_attr=False))
        out = fluid.layers.fc(hidden, 3)
        loss = fluid.layers.mean(fluid.layers.elementwise_add(out, out))
        if minimize:
            fluid.optimizer.SGD(0.01).minimize(loss)
    return main, startup, loss


def transformed(main, scope, is_test, act, weight):
    graph = IrGraph(core.Graph(main.desc), for_test=is_test)
    q.QuantizationTransformPass(scope=scope, place=PLACE, activation_quantize_type=act,
                                weight_quantize_type=weight).apply(graph)
    return graph


def set_weights(scope):
    for name in ('conv2d_0.w_0', 'fc_0.w_0'):
        tensor = scope.find_var(name).get_tensor()
        shape = tensor.shape()
        tensor.set(np.linspace(-1, 1, int(np.prod(shape))).reshape(shape).astype('float32'), PLACE)


@pytest.fixture
def exe():
    return fluid.Executor(PLACE)


@pytest.fixture
def scope():
    made = core.Scope()
    with fluid.scope_guard(made):
        yield made


# The loss of two training runs and of the program on whole numbers.
RUNS = [('abs_max', 'abs_max', 10.788365, 10.788365, 10.788367),
        ('moving_average_abs_max', 'channel_wise_abs_max', 3.877846, 6.4418645, 6.4418654),
        ('range_abs_max', 'abs_max', 10.788365, 10.788365, 10.788367)]


@pytest.mark.parametrize('act, weight, first, second, frozen', RUNS, ids=[run[0] for run in RUNS])
def test_a_program_is_rounded_frozen_and_made_int8(exe, scope, act, weight, first, second, frozen):
    main, startup, loss = net()
    exe.run(startup)
    train = transformed(main, scope, False, act, weight).to_program()
    test = transformed(main.clone(for_test=True), scope, True, act, weight)
    set_weights(scope)
    for wanted in (first, second):
        np.testing.assert_allclose(exe.run(train, feed=FEED, fetch_list=[loss.name])[0], [wanted], rtol=1e-6)
    q.QuantizationFreezePass(scope, PLACE, weight_quantize_type=weight).apply(test)
    np.testing.assert_allclose(exe.run(test.to_program(), feed=FEED, fetch_list=[loss.name])[0], [frozen], rtol=1e-6)
    assert load_variable_data(scope, 'fc_0.w_0')[0].tolist() == [-127, -116, -105]
    q.ConvertToInt8Pass(scope, PLACE).apply(test)
    assert load_variable_data(scope, 'fc_0.w_0.int8').dtype == np.int8
    assert 'fc_0.w_0.int8' in [name for op in test.to_program().global_block().ops for name in op.input_arg_names]


def test_the_ops_are_the_originals(exe, scope):
    main, startup, loss = net()
    exe.run(startup)
    program = transformed(main, scope, False, 'abs_max', 'abs_max').to_program()
    quantize = ['fake_quantize_abs_max', 'fake_dequantize_max_abs']
    assert [op.type for op in program.global_block().ops] == [
        *quantize, *quantize, 'conv2d', 'relu', *quantize, *quantize, 'mul', 'elementwise_add', 'elementwise_add', 'mean']
    conv = program.global_block().ops[4]
    assert conv.input('Input') == ['x.quantized.dequantized']
    assert conv.input('Filter') == ['conv2d_0.w_0.quantized.dequantized']


def test_gradients_read_what_was_rounded_and_training_goes_on(exe, scope):
    main, startup, loss = net(minimize=True)
    exe.run(startup)
    program = transformed(main, scope, False, 'moving_average_abs_max', 'abs_max').to_program()
    grad = next(op for op in program.global_block().ops if op.type == 'mul_grad')
    assert grad.input('Y') == ['fc_0.w_0.quantized.dequantized'] and grad.output('Y@GRAD') == ['fc_0.w_0@GRAD']
    grad = next(op for op in program.global_block().ops if op.type == 'conv2d_grad')
    assert grad.input('Filter') == ['conv2d_0.w_0.quantized.dequantized'] and grad.input('Input') == ['x.quantized.dequantized']
    losses = [exe.run(program, feed=FEED, fetch_list=[loss.name])[0].item() for _ in range(20)]
    assert losses[-1] < losses[3]


def test_the_transpiler_keeps_scales_in_the_startup_program(exe, scope):
    main, startup, loss = net()
    transpiler = QuantizeTranspiler(activation_quantize_type='range_abs_max')
    with fluid.program_guard(main, startup):
        transpiler.training_transpile()
    assert main.global_block().ops[0].type == 'increment'
    test = main.clone(for_test=True)
    exe.run(startup)
    set_weights(scope)
    for _ in range(2):
        found, = exe.run(main, feed=FEED, fetch_list=[loss])
    np.testing.assert_allclose(found, [10.788365], rtol=1e-6)
    transpiler.freeze_program(test, PLACE)
    np.testing.assert_allclose(exe.run(test, feed=FEED, fetch_list=[loss.name])[0], [10.788367], rtol=1e-6)
    transpiler.convert_to_int8(test, PLACE)
    assert load_variable_data(scope, 'conv2d_0.w_0.int8').dtype == np.int8


@pytest.mark.parametrize('kind', ['range_abs_max', 'moving_average_abs_max'])
def test_scales_of_a_frozen_program_stand_still(exe, scope, kind):
    main, startup, loss = net()
    test = main.clone(for_test=True)
    transpiler = QuantizeTranspiler(activation_quantize_type=kind)
    transpiler.training_transpile(main, startup)
    transpiler.training_transpile(test, fluid.Program())  # what that one would fill, nobody does
    exe.run(startup)
    exe.run(main, feed=FEED)
    kept = load_variable_data(scope, 'x.scale')
    transpiler.freeze_program(test, PLACE)
    more = {'x': FEED['x'] * 9}
    first, second = (exe.run(test, feed=more, fetch_list=[loss.name])[0] for _ in range(2))
    assert first == second and load_variable_data(scope, 'x.scale') == kept
    assert [p.name for p in main.all_parameters() if not p.trainable] == ['x.scale', 'relu_0.tmp_0.scale']


def test_a_window_forgets_large_numbers(exe, scope):
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        x = fluid.data('x', [None, 4])
        fluid.layers.fc(x, 2)
        QuantizeTranspiler(activation_quantize_type='range_abs_max', window_size=3).training_transpile()
    exe.run(startup)
    scales = [exe.run(main, feed={'x': np.full((2, 4), size, 'float32')}, fetch_list=['x.scale'])[0].item()
              for size in (1, 5, 2, 3, 2, 2, 1, 1, 1, 1, 7, 1, 1, 1, 1)]
    assert scales == [1, 5, 5, 5, 3, 3, 2, 2, 1, 1, 7, 7, 7, 1, 1]


def test_additions_are_rounded_and_results_watched(exe, scope):
    main, startup, loss = net()
    exe.run(startup)
    graph = IrGraph(core.Graph(main.desc), for_test=False)
    q.AddQuantDequantPass(scope=scope, place=PLACE).apply(graph)
    program = graph.to_program()
    assert [op.type for op in program.global_block().ops].count('fake_quantize_dequantize_moving_average_abs_max') == 1
    q.OutScaleForTrainingPass(scope=scope, place=PLACE).apply(graph)
    program = graph.to_program()
    for _ in range(3):
        relu, = exe.run(program, feed=FEED, fetch_list=['relu_0.tmp_0'])
    watched = load_variable_data(scope, 'relu_0.tmp_0@scale')[0]
    most = np.abs(relu).max()
    accum = state = 1.0
    for _ in range(3):
        accum, state = 0.9 * accum + most, 0.9 * state + 1
    assert watched == pytest.approx(accum / state, rel=1e-5)
    test = IrGraph(core.Graph(main.clone(for_test=True).desc), for_test=True)
    q.OutScaleForInferencePass(scope=scope).apply(test)
    thresholds = {op.type: op.attr('out_threshold') for op in test.to_program().global_block().ops
                  if op.has_attr('out_threshold')}
    assert thresholds['relu'] == pytest.approx(watched)


def test_ops_in_a_scope_can_be_left_out(exe, scope):
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        x = fluid.data('x', [None, 4])
        with fluid.name_scope('skip_quant'):
            fluid.layers.fc(x, 2)
    program = transformed(main, scope, False, 'abs_max', 'abs_max').to_program()
    assert [op.type for op in program.global_block().ops] == ['mul', 'elementwise_add']


def test_rounding_is_half_away_from_zero():
    assert quant_tensor(np.float32([0.5, -0.5, 1.5, 3, -4]), 127.0).tolist() == [1, -1, 2, 3, -4]
    by_channel = quant_tensor(np.float32([[1, 2], [1, 2]]), np.float32([2, 4]), 0)
    assert by_channel.tolist() == [[64, 127], [32, 64]]


@pytest.mark.parametrize('use, says', [
    (lambda: q.QuantizationTransformPass(activation_quantize_type='min_max'), 'min_max'),
    (lambda: q.QuantizationTransformPass(quantizable_op_type=['lstm']), 'lstm'),
    (lambda: QuantizeTranspiler(weight_quantize_type='none'), 'none')])
def test_what_is_not_known_is_named(use, says):
    with pytest.raises(ValueError, match=says):
        use()


def test_what_is_not_built_says_so():
    for use in (q.PostTrainingQuantization, fluid.contrib.Compressor,
                lambda: q.QuantizationTransformPass(act_quantize_func=abs)):
        with pytest.raises(NotImplementedError, match='not built yet'):
            use()
    with pytest.raises(TypeError, match='IrGraph'):
        q.QuantizationTransformPass().apply(fluid.Program())


@pytest.mark.parametrize('name, says', [
    ('quantization.PostTrainingQuantization', 'QuantizationTransformPass'), ('quantization.WeightQuantization', 'FreezePass'),
    ('quantization.QuantizationStrategy', 'FreezePass'), ('quantization.Qat2Int8MkldnnPass', 'frozen program'),
    ('distillation.L2Distiller', 'stop_gradient on the teacher'), ('prune.StructurePruner', 'fewer filters'),
    ('searcher.SAController', 'for each candidate'), ('nas.LightNASStrategy', 'for each candidate'), ('Context', 'Executor.run'),
    ('graph.GraphWrapper', 'work on the Program')])
def test_what_slim_has_not_says_what_to_do(name, says):
    thing = fluid.contrib.slim
    for part in name.split('.'):
        thing = getattr(thing, part)
    with pytest.raises(NotImplementedError, match=says):
        thing(None)
