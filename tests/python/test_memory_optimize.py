"""memory_optimize and release_memory, as users call them."""
import numpy as np
import pytest

import paddle.fluid as fluid


def losses(edit, steps=4):
    main, startup = fluid.Program(), fluid.Program()
    main.random_seed = startup.random_seed = 5
    with fluid.unique_name.guard(), fluid.program_guard(main, startup):
        x = fluid.layers.data('x', [32])
        hidden = x
        for _ in range(4):
            hidden = fluid.layers.fc(hidden, 32, act='relu')
        hidden = fluid.layers.dropout(hidden, 0.2)
        loss = fluid.layers.mean(fluid.layers.square(hidden))
        fluid.optimizer.Adam(0.01).minimize(loss)
    edit(main, loss)
    exe = fluid.Executor(fluid.CPUPlace())
    with fluid.scope_guard(fluid.Scope()):
        exe.run(startup)
        return [exe.run(main, {'x': np.ones((8, 32), 'float32') * i}, [loss, hidden])
                for i in range(steps)]


@pytest.mark.filterwarnings('ignore')
@pytest.mark.parametrize('edit', [
    lambda main, loss: fluid.memory_optimize(main),
    lambda main, loss: fluid.memory_optimize(main, level=1),
    lambda main, loss: fluid.memory_optimize(main, skip_opt_set={loss}, skip_grads=True),
    lambda main, loss: fluid.memory_optimize(main, skip_opt_set=[loss.name]),
    lambda main, loss: fluid.release_memory(main),
    lambda main, loss: fluid.release_memory(main, {loss.name}),
])
def test_numbers_do_not_change(edit):
    for plain, optimized in zip(losses(lambda main, loss: None), losses(edit)):
        for a, b in zip(plain, optimized):
            np.testing.assert_array_equal(a, b)


def parallel_losses(edit, places):
    main, startup = fluid.Program(), fluid.Program()
    main.random_seed = startup.random_seed = 5
    with fluid.unique_name.guard(), fluid.program_guard(main, startup):
        hidden = fluid.layers.data('x', [32])
        for _ in range(4):
            hidden = fluid.layers.fc(hidden, 32, act='relu')
        loss = fluid.layers.mean(fluid.layers.square(hidden))
        fluid.optimizer.Momentum(0.01, 0.9).minimize(loss)
    edit(main)
    compiled = fluid.CompiledProgram(main).with_data_parallel(
        loss_name=loss.name, places=[fluid.CPUPlace()] * places)
    exe = fluid.Executor(fluid.CPUPlace())
    x = np.random.RandomState(3).rand(8, 32).astype('float32')
    with fluid.scope_guard(fluid.Scope()):
        exe.run(startup)
        return [exe.run(compiled, {'x': x}, [loss])[0] for _ in range(3)]


@pytest.mark.filterwarnings('ignore')
@pytest.mark.parametrize('places', [1, 2])
@pytest.mark.parametrize('edit', [fluid.memory_optimize, fluid.release_memory,
                                  lambda main: fluid.memory_optimize(main, level=1)])
def test_compiled_programs_give_the_same_numbers(edit, places):
    plain, optimized = parallel_losses(lambda main: None, places), parallel_losses(edit, places)
    assert plain[0].shape == (places,) and plain[0][0] != plain[-1][0]
    np.testing.assert_array_equal(plain, optimized)


def test_memory_optimize_prints_and_returns_none(capsys):
    x = fluid.layers.data('x', [16])
    out = fluid.layers.fc(fluid.layers.fc(x, 16), 16)
    fluid.optimizer.SGD(0.1).minimize(fluid.layers.mean(fluid.layers.square(out)))
    main = fluid.default_main_program()
    before = {name for op in main.global_block().ops for name in op.output_arg_names}
    assert fluid.memory_optimize(main, print_log=True) is None
    assert capsys.readouterr().out.startswith('!!! 0,  ')
    after = {name for op in main.global_block().ops for name in op.output_arg_names}
    assert after < before and main._is_mem_optimized


@pytest.mark.parametrize('level', [0, 1])
def test_an_inference_model_of_an_optimized_program(exe, tmp_path, level):
    hidden = fluid.layers.data('x', [32])
    for _ in range(4):
        hidden = fluid.layers.fc(hidden, 32, act='relu')
    prediction = fluid.layers.fc(hidden, 32, act='softmax')
    fluid.optimizer.SGD(0.1).minimize(fluid.layers.mean(prediction * prediction))
    main = fluid.default_main_program()
    plain = main.clone(for_test=True)
    fluid.memory_optimize(main, level=level)
    exe.run(fluid.default_startup_program())
    fluid.io.save_inference_model(str(tmp_path), ['x'], [prediction, hidden], exe, main)
    x = np.random.RandomState(3).rand(4, 32).astype('float32')
    expected = exe.run(plain, {'x': x}, [prediction.name, hidden.name])
    with fluid.scope_guard(fluid.Scope()):
        model, feeds, fetches = fluid.io.load_inference_model(str(tmp_path), exe)
        for a, b in zip(expected, exe.run(model, {feeds[0]: x}, fetches)):
            np.testing.assert_array_equal(a, b)


def test_memory_argument_errors():
    program = fluid.Program()
    with pytest.raises(TypeError, match='input_program must be a Program'):
        fluid.memory_optimize('program')
    with pytest.raises(TypeError, match='input_program must be a Program'):
        fluid.release_memory(None)
    with pytest.raises(ValueError, match='level is 2'):
        fluid.memory_optimize(program, level=2)
    for transform in (fluid.memory_optimize, fluid.release_memory):
        with pytest.raises(ValueError, match='skip_opt_set must be'):
            transform(program, skip_opt_set='loss')
        with pytest.raises(TypeError, match='one of its elements is a int'):
            transform(program, skip_opt_set=[1])
    with pytest.warns(UserWarning, match='experimental'):
        assert fluid.release_memory(program) is None
