"""PipelineOptimizer: the numbers of the program without it, the sections it says, and what it refuses."""
import numpy as np
import pytest

import paddle.fluid as fluid
from paddle.doctor import check_script

CPU = fluid.CPUPlace()


def net():
    """(loss, what a first section gives, what a second gives, the fed variables)"""
    words = fluid.layers.data('words', [1], dtype='int64', lod_level=1)
    label = fluid.layers.data('label', [1])
    rows = fluid.layers.embedding(words, [20, 4], param_attr='table')
    pooled = fluid.layers.sequence_pool(rows, 'average')
    hidden = fluid.layers.fc(pooled, 8, act='tanh')
    loss = fluid.layers.mean(fluid.layers.square_error_cost(fluid.layers.fc(hidden, 1), label))
    return loss, [pooled], [hidden], [words, label]


def inner():
    rate = fluid.layers.exponential_decay(0.1, 2, 0.9, staircase=True)
    return fluid.optimizer.Momentum(rate, 0.9, regularization=fluid.regularizer.L2Decay(1e-3))


def piped(optimizer, loss, *cuts, **options):
    count = 2 * len(cuts) - 1
    settings = {'cut_list': list(cuts), 'place_list': [CPU] * count, 'concurrency_list': [1] * count, **options}
    made = fluid.optimizer.PipelineOptimizer(optimizer, **settings)
    made.minimize(loss)
    return made


@pytest.fixture
def lines(tmp_path):
    chance = np.random.RandomState(3)
    def line():
        words = chance.randint(0, 20, chance.randint(1, 6))
        return f'{len(words)} {" ".join(map(str, words))} 1 {chance.rand():.3f}\n'
    for number in range(2):
        (tmp_path / f'part-{number}').write_text(''.join(line() for _ in range(13)))
    return [str(tmp_path / f'part-{number}') for number in range(2)]


def trained(lines, with_pipeline, from_dataset):
    """Every parameter after the run, and the losses that were fetched."""
    main, startup, scope = fluid.Program(), fluid.Program(), fluid.core.Scope()
    startup.random_seed = 4
    losses = []
    with fluid.scope_guard(scope), fluid.unique_name.guard(), fluid.program_guard(main, startup):
        loss, first, second, fed = net()
        if with_pipeline:
            piped(inner(), loss, first, second, [loss], concurrency_list=[2, 1, 1, 1, 4], queue_size=2)
        else:
            inner().minimize(loss)
        exe = fluid.Executor(CPU)
        exe.run(startup)
        dataset = fluid.DatasetFactory().create_dataset('QueueDataset')
        dataset.set_use_var(fed)
        dataset.set_batch_size(4)
        dataset.set_filelist(lines)
        dataset.set_thread(1)
        if from_dataset:
            exe.train_from_dataset(main, dataset)
        else:
            losses = [exe.run(main, feed=feed, fetch_list=[loss])[0] for feed in dataset._batches(1)]
        return [np.array(scope.find_var(each.name).get_tensor()) for each in main.all_parameters()], losses


@pytest.mark.parametrize('from_dataset', [True, False])
def test_training_is_that_of_the_program_without_it(lines, from_dataset):
    parameters, losses = trained(lines, True, from_dataset)
    plain, plain_losses = trained(lines, False, from_dataset)
    assert len(parameters) == 5 and len(losses) == (0 if from_dataset else 7)
    for ours, theirs in zip(parameters + losses, plain + plain_losses):
        np.testing.assert_array_equal(ours, theirs)


# What 1.8.5 says of its sections, for a net of two tables: the variables that go from one to the next.
def test_sections_give_each_other_what_the_originals_do():
    x, y = (fluid.layers.data(name, [1], dtype='int64') for name in 'xy')
    of_x, of_y = (fluid.layers.embedding(var, [10, 2], param_attr='emb' + var.name) for var in (x, y))
    joined = fluid.layers.concat([of_x, of_y], axis=1)
    loss = fluid.layers.reduce_mean(fluid.layers.fc(joined, 1, bias_attr=False, name='fc'))
    made = piped(fluid.optimizer.SGD(0.5), loss, [of_x, of_y], [joined], [loss])
    gives = [[of_x.name, of_y.name], [joined.name], [joined.name + '@GRAD'],
             [of_x.name + '@GRAD', of_y.name + '@GRAD'], []]
    assert [section.outputs for section in made.sections] == gives
    assert [sorted(section.inputs) for section in made.sections] == [
        ['embx', 'emby', 'x', 'y'], gives[0], [joined.name, 'fc.w_0', 'learning_rate_0'],
        sorted(gives[0] + gives[2]), sorted(['embx', 'emby', 'learning_rate_0', 'x', 'y'] + gives[3])]
    assert [section.ops[-1] for section in made.sections] == ['lookup_table', 'concat', 'sgd', 'concat_grad', 'sgd']
    assert sum(len(section.ops) for section in made.sections) == len(fluid.default_main_program().global_block().ops)


@pytest.mark.parametrize('options, says', [
    ({'place_list': [CPU]}, 'place_list has 1 item, but 2 cuts make 3 sections'),
    ({'concurrency_list': None}, 'concurrency_list has 0 items, but 2 cuts make 3 sections'),
    ({'concurrency_list': [1, 1, 0]}, 'an item of concurrency_list is 0'),
    ({'queue_size': 0}, 'queue_size is 0'), ({'sync_steps': 0}, 'sync_steps is 0'),
    ({'start_cpu_core_id': -1}, 'start_cpu_core_id is -1'),
    ({'cut_list': None}, 'cut_list holds no cut'), ({'cut_list': [[], []]}, 'item 0 of cut_list is empty')])
def test_values_that_do_not_fit(options, says):
    loss, first, _, _ = net()
    with pytest.raises(ValueError, match=says):
        piped(inner(), loss, first, [loss], **options)


@pytest.mark.parametrize('options, says', [
    ({'place_list': ['cpu'] * 3}, 'place_list holds'), ({'concurrency_list': ['one'] * 3}, 'concurrency_list holds'),
    ({'cut_list': ['a', 'b']}, 'cut_list holds'), ({'cut_list': [['a'], ['b']]}, 'a cut holds'),
    ({'cut_list': 3}, 'cut_list is')])
def test_types_that_do_not_fit(options, says):
    loss, first, _, _ = net()
    with pytest.raises(TypeError, match=says):
        piped(inner(), loss, first, [loss], **options)


def test_cuts_are_of_the_program_and_in_its_order():
    loss, first, second, fed = net()
    with fluid.program_guard(fluid.Program()):
        strange = fluid.layers.fc(fluid.data('z', [None, 3]), 2)
    before = len(fluid.default_main_program().global_block().ops)
    for cuts, says in (([strange], "is not in the loss's program"), (fed[:1], 'is computed by no op')):
        with pytest.raises(ValueError, match=says):
            piped(fluid.optimizer.SGD(0.1), loss, cuts, [loss])
    with pytest.raises(ValueError, match='is computed from cut 1'):
        piped(fluid.optimizer.SGD(0.1), loss, second, first, [loss])
    assert len(fluid.default_main_program().global_block().ops) == before


def test_several_cards_are_not_built():
    loss, first, _, _ = net()
    with pytest.raises(NotImplementedError, match='gpu:0, gpu:1; a program on several GPU cards'):
        piped(inner(), loss, first, [loss], place_list=[fluid.CUDAPlace(0), CPU, fluid.CUDAPlace(1)])


def test_the_doctor_knows_it():
    script = 'import paddle.fluid as fluid\nfluid.optimizer.PipelineOptimizer(fluid.optimizer.SGD(0.1), cut_list=[], {}=2)\n'
    differs, = check_script(script.format('queue_size'))
    assert not differs.stops and 'one after another' in differs.text
    wrong, = (finding for finding in check_script(script.format('queues')) if finding.stops)
    assert (wrong.line, wrong.kind) == (2, 'argument')
