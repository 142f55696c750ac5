"""fluid.contrib.decoder: a cell that trains over right words and decodes by beam search; and what is refused."""
import numpy as np
import pytest

import paddle.fluid as fluid
from paddle.fluid import contrib, layers

PLACE = fluid.CPUPlace()
WORDS, WIDTH = 6, 4


def cell(start):
    made = contrib.StateCell(inputs={'x': None}, states={'h': contrib.InitState(init=start)}, out_state='h')

    @made.state_updater
    def update(cell):
        cell.set_state('h', layers.fc([cell.get_state('h'), cell.get_input('x')], WIDTH, act='tanh',
                                      param_attr=['wh', 'wx'], bias_attr='b'))
    return made


def decoded(end_id, max_len=5, build=None):
    """(words, lengths of sentences) of two sources; parameters are drawn in the order of their names."""
    main, startup = fluid.Program(), fluid.Program()
    with fluid.unique_name.guard(), fluid.program_guard(main, startup), fluid.scope_guard(fluid.Scope()):
        start = fluid.data('start', [None, WIDTH])
        ids, scores = fluid.data('ids', [None, 1], 'int64', 2), fluid.data('scores', [None, 1], 'float32', 2)
        decoder = contrib.BeamSearchDecoder(cell(start), ids, scores, WORDS, 3, topk_size=4, sparse_emb=False,
                                            max_len=max_len, beam_size=2, end_id=end_id)
        (build or contrib.BeamSearchDecoder.decode)(decoder)
        found = decoder()
        exe = fluid.Executor(PLACE)
        exe.run(startup)
        draw = np.random.RandomState(9)
        for parameter in sorted(main.all_parameters(), key=lambda each: each.shape):
            value = draw.randn(*parameter.shape).astype('float32')
            fluid.global_scope().find_var(parameter.name).get_tensor().set(value, PLACE)
        feed = {'start': draw.randn(2, WIDTH).astype('float32'),
                'ids': fluid.create_lod_tensor(np.int64([[0], [0]]), [[1, 1], [1, 1]], PLACE),
                'scores': fluid.create_lod_tensor(np.float32([[1], [1]]), [[1, 1], [1, 1]], PLACE)}
        words, _ = exe.run(main, feed=feed, fetch_list=list(found), return_numpy=False)
    return np.array(words).ravel().tolist(), words.recursive_sequence_lengths()[1]


def sentences(end_id, **more):
    words, lengths = decoded(end_id, **more)
    ends = np.cumsum(lengths)
    return [words[end - length:end] for end, length in zip(ends, lengths)]


@pytest.mark.parametrize('end_id', range(1, WORDS))
def test_sentences_end_with_the_word_that_ends_them_or_at_the_limit(end_id):
    found = sentences(end_id)
    assert len(found) == 4
    for sentence in found:
        assert sentence[0] == 0 and end_id not in sentence[1:-1]
        assert sentence[-1] == end_id or len(sentence) == 6


def test_some_sentences_end_early():
    assert any(len(sentence) < 6 for end_id in range(1, WORDS) for sentence in sentences(end_id))


def own_step(decoder):
    """What decode() does for one input, written out as programs do that want another step."""
    with decoder.block():
        ids = decoder.read_array(init=decoder._ids, is_ids=True)
        scores = decoder.read_array(init=decoder._scores, is_scores=True)
        words = layers.embedding(ids, size=[WORDS, 3])
        decoder.state_cell.set_state('h', layers.sequence_expand(decoder.state_cell.get_state('h'), scores))
        decoder.state_cell.compute_state(inputs={'x': words})
        out = layers.lod_reset(decoder.state_cell.get_state('h'), y=scores)
        top, indices = layers.topk(layers.fc(out, size=WORDS, act='softmax'), k=4)
        total = layers.elementwise_add(layers.log(top), layers.reshape(scores, [-1]), axis=0)
        chosen, chosen_scores = layers.beam_search(ids, scores, indices, total, 2, end_id=1, level=0)
        with layers.Switch() as switch:
            with switch.case(layers.is_empty(chosen)):
                decoder.early_stop()
            with switch.default():
                decoder.state_cell.update_states()
                decoder.update_array(ids, chosen)
                decoder.update_array(scores, chosen_scores)


def test_a_step_of_ones_own_is_the_usual_one():
    assert decoded(1, build=own_step) == decoded(1)


def test_training_learns_to_copy():
    main, startup = fluid.Program(), fluid.Program()
    main.random_seed = startup.random_seed = 3
    with fluid.unique_name.guard(), fluid.program_guard(main, startup), fluid.scope_guard(fluid.Scope()):
        words = fluid.data('words', [None, 1], 'int64', 1)
        start = layers.fill_constant_batch_size_like(layers.sequence_pool(layers.cast(words, 'float32'), 'last'),
                                                     [-1, WIDTH], 'float32', 0.0)
        rows = layers.embedding(words, [WORDS, 3])
        decoder = contrib.TrainingDecoder(cell(start))
        with decoder.block():
            word = decoder.step_input(rows)
            decoder.state_cell.compute_state(inputs={'x': word})
            decoder.output(layers.fc(decoder.state_cell.out_state(), WORDS, act='softmax'))
            decoder.state_cell.update_states()
        loss = layers.mean(layers.cross_entropy(decoder(), words))
        fluid.optimizer.Adam(0.05).minimize(loss)
        exe = fluid.Executor(PLACE)
        exe.run(startup)
        feed = {'words': fluid.create_lod_tensor(np.int64([[1], [2], [3], [4], [5], [0]]), [[4, 2]], PLACE)}
        losses = [exe.run(main, feed=feed, fetch_list=[loss])[0][0] for _ in range(60)]
    assert losses[0] > 1.5 and losses[-1] < 0.2


def test_a_state_of_one_number_has_the_batch_of_init_boot():
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        boot = fluid.data('boot', [None, 2])
        assert contrib.InitState(init_boot=boot, shape=[-1, 7], value=1.5).value.shape == (-1, 7)
        with pytest.raises(ValueError, match='give init, or init_boot'):
            contrib.InitState()


def wrong_uses():
    start = fluid.data('start', [None, WIDTH])
    with pytest.raises(ValueError, match="out_state is 'c', but the states are h"):
        contrib.StateCell({'x': None}, {'h': contrib.InitState(start)}, 'c')
    with pytest.raises(ValueError, match='begins with an InitState, got Variable'):
        contrib.StateCell({'x': None}, {'h': start}, 'h')
    made = cell(start)
    with pytest.raises(ValueError, match='inside the block of a decoder'):
        made.get_state('h')
    with pytest.raises(ValueError, match='no input z, but x'):
        made.compute_state(inputs={'z': start})
    with pytest.raises(ValueError, match='after its block'):
        contrib.TrainingDecoder(made)()
    ids, scores = fluid.data('ids', [None, 1], 'int64', 2), fluid.data('scores', [None, 1], 'float32', 2)
    decoder = contrib.BeamSearchDecoder(made, ids, scores, WORDS, 3)
    with pytest.raises(ValueError, match='read_array belongs into the block'):
        decoder.read_array(ids)
    with pytest.raises(ValueError, match='after decode'):
        decoder()
    with pytest.raises(ValueError, match='input_var_dict has z'):
        contrib.BeamSearchDecoder(made, ids, scores, WORDS, 3, input_var_dict={'z': start})


def test_wrong_uses_say_what_to_do():
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        wrong_uses()
