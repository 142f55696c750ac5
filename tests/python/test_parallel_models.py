"""d places on a batch train a model as one place does, for eight kinds of models."""
import random

import numpy as np
import pytest

import paddle.fluid as fluid
from nets import NETS

Reduce = fluid.BuildStrategy.ReduceStrategy.Reduce


def train(name, sizes, devices, **options):
    """Every state after a step on each batch, and the losses of the steps. On 0 devices the program
    runs as it is, without with_data_parallel."""
    build, batch = NETS[name]
    main, startup = fluid.Program(), fluid.Program()
    with fluid.unique_name.guard(), fluid.program_guard(main, startup), \
            fluid.scope_guard(fluid.Scope()):
        main.random_seed = startup.random_seed = 7
        loss = build()
        exe = fluid.Executor(fluid.CPUPlace())
        exe.run(startup)
        strategy = fluid.BuildStrategy()
        strategy.sync_batch_norm = True
        for option, value in options.items():
            setattr(strategy, option, value)
        program = main
        if devices:
            program = fluid.CompiledProgram(main).with_data_parallel(
                loss_name=loss.name, build_strategy=strategy, places=[fluid.CPUPlace()] * devices)
            program.fetch_mean(loss)
        losses = [exe.run(program, feed=batch(n, seed), fetch_list=[loss])[0].item()
                  for seed, n in enumerate(sizes)]
        states = {var.name: np.array(fluid.global_scope().find_var(var.name).get_tensor())
                  for var in main.list_vars() if var.persistable}
    return states, losses


def same(left, right):
    return left.keys() == right.keys() and all(
        np.array_equal(left[name], right[name]) for name in left)


@pytest.mark.parametrize('name', NETS)
def test_places_equal_one_place(name):
    sizes = [8, 7, 9]
    expected, expected_losses = train(name, sizes, 0)
    alone, alone_losses = train(name, sizes, 1)
    assert same(expected, alone) and expected_losses == alone_losses
    for devices in (2, 3, 4):
        found, losses = train(name, sizes, devices)
        np.testing.assert_allclose(losses, expected_losses, rtol=2e-5, err_msg=f'{devices} places')
        for state, value in expected.items():
            np.testing.assert_allclose(found[state], value, rtol=1e-4, atol=1e-5,
                                       err_msg=f'{state} on {devices} places')


@pytest.mark.parametrize('name', NETS)
def test_all_reduce_reduce_and_a_second_run_give_equal_bits(name):
    sizes = [5, 6]
    first, losses = train(name, sizes, 3)
    again, _ = train(name, sizes, 3)
    assert same(first, again)
    reduced, reduced_losses = train(name, sizes, 3, reduce_strategy=Reduce)
    assert same(first, reduced)
    assert losses == reduced_losses


@pytest.mark.parametrize('name', ['mlp', 'ctr', 'crf_tagger'])
def test_virtual_shards_give_equal_bits_on_any_number_of_places(name):
    states = [train(name, [8, 11], devices, virtual_shards=4)[0] for devices in (1, 2, 3, 4)]
    assert all(same(states[0], other) for other in states[1:])


@pytest.mark.parametrize('seed', range(6))
def test_any_model_any_sizes_any_places(seed):
    draw = random.Random(seed)
    name, devices = draw.choice(list(NETS)), draw.randint(2, 6)
    sizes = [draw.randint(devices, 3 * devices) for _ in range(2)]
    expected, _ = train(name, sizes, 1)
    found, _ = train(name, sizes, devices)
    for state, value in expected.items():
        np.testing.assert_allclose(found[state], value, rtol=1e-4, atol=1e-5,
                                   err_msg=f'{state} of {name}, {devices} places, batches of {sizes}')
