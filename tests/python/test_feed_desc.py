"""DataFeedDesc, and names of fluid that say what serves in their place. Texts are the original's."""
import pytest

import paddle.fluid as fluid

TEXT = '''name: "MultiSlotDataFeed"
batch_size: 2  # samples
multi_slot_desc {
    slots {
         name: "words"
         type: "uint64"
         is_dense: false
         is_used: false
     }
     slots: { name: "label" type: "uint64" is_dense: false is_used: false }
}
'''
SLOT = '''  slots {{
    name: "{}"
    type: "uint64"
    is_dense: {}
    is_used: {}
  }}
'''


def text(batch, words, label):
    return (f'name: "MultiSlotDataFeed"\nbatch_size: {batch}\nmulti_slot_desc {{\n' + SLOT.format('words', *words)
            + SLOT.format('label', *label) + '}\npipe_command: "cat"\n')


@pytest.fixture
def write(tmp_path):
    def write(content):
        (tmp_path / 'feed.proto').write_text(content)
        return str(tmp_path / 'feed.proto')
    return write


def test_a_description_is_read_changed_and_printed(write):
    feed = fluid.DataFeedDesc(write(TEXT))
    assert feed.desc() == text(2, ('false', 'false'), ('false', 'false'))
    feed.set_batch_size(7)
    feed.set_dense_slots(['words'])
    feed.set_use_slots(['label'])
    assert feed.desc() == text(7, ('true', 'false'), ('false', 'true'))
    assert fluid.DataFeedDesc(write(feed.desc())).desc() == feed.desc()


@pytest.mark.parametrize('content, says', [
    ('nme: "x"', 'line 1: nme is no field here; fields are name, batch_size'),
    ('name: "x"\nbatch_size: many', 'line 2: batch_size takes a int: write batch_size: 1'),
    ('multi_slot_desc { slots { name: "a" type: "float"', 'a brace is not closed'),
    ('multi_slot_desc: 3', 'multi_slot_desc has fields of its own'),
    ('multi_slot_desc { slots { name: "a" } }', 'every slot has a name and a type'),
    ('name "x"', 'name takes a str: write name: "text"'), ('name:', 'it ends too early'), ('name: ?', 'is due')])
def test_a_wrong_text_is_named_by_its_line(write, content, says):
    with pytest.raises(ValueError) as error:
        fluid.DataFeedDesc(write(content))
    assert says in str(error.value)


def test_slots_that_are_not_there(write):
    with pytest.raises(KeyError, match='nothing is no slot; slots are words, label'):
        fluid.DataFeedDesc(write(TEXT)).set_use_slots(['nothing'])
    with pytest.raises(ValueError, match='set_dense_slots is for a MultiSlotDataFeed, and this is a Other'):
        fluid.DataFeedDesc(write('name: "Other"')).set_dense_slots(['a'])


@pytest.mark.parametrize('name, says', [
    ('TrainerDesc', 'train_from_dataset'), ('MultiTrainer', 'train_from_dataset'), ('DistMultiTrainer', 'train_from_dataset'),
    ('PipelineTrainer', 'train_from_dataset'), ('ComplexVariable', 'static programs only'), ('VarBase', 'static programs only'),
    ('optimizer.DGCMomentumOptimizer', 'use Momentum')])
def test_classes_that_are_not_built_say_what_to_use(name, says):
    thing = fluid
    for part in name.split('.'):
        thing = getattr(thing, part)
    with pytest.raises(NotImplementedError, match=says):
        thing()


def test_libraries_of_the_original_are_refused():
    with pytest.raises(NotImplementedError, match='cannot open ops.so.*py_func'):
        fluid.load_op_library('ops.so')


def test_learning_rate_decay_is_where_0_14_had_it():
    assert fluid.learning_rate_decay.exponential_decay is fluid.layers.exponential_decay


def test_layers_of_ranks_append_what_the_originals_do():
    ranks = fluid.layers.collective
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()), fluid.unique_name.guard():
        x = fluid.data('x', [4, 3])
        made = [ranks._c_allreduce(x, reduce_type='max', ring_id=1), ranks._c_broadcast(x, 1), ranks._c_allgather(x, 2),
                ranks._c_sync_calc_stream(x), ranks._c_sync_comm_stream(x, 0), ranks._allreduce(x)]
    assert [(var.name, var.shape) for var in made[:5]] == [
        ('x.c_allreduce_max_0', (4, 3)), ('x', (4, 3)), ('x.c_allgather_0', (8, 3)), ('x', (4, 3)), ('x', (4, 3))]
    ops = main.global_block().ops
    assert [op.type for op in ops] == ['c_allreduce_max', 'c_broadcast', 'c_allgather', 'c_sync_calc_stream',
                                       'c_sync_comm_stream', 'allreduce']
    assert [ops[0].attr('ring_id'), ops[1].attr('root'), ops[2].attr('nranks')] == [1, 1, 2]
    with pytest.raises(TypeError, match="reduce_type is 'mean'"):
        ranks._c_allreduce(x, reduce_type='mean')
    with pytest.raises(ValueError, match='nranks is 0'):
        ranks._c_allgather(x, 0)
    for call in (lambda: ranks._c_reducescatter(x, 2), lambda: ranks._broadcast(x, 0)):
        with pytest.raises(NotImplementedError, match='use _c_broadcast|out of _c_allreduce'):
            call()
