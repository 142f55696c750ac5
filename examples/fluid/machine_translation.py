"""Sentences into a made-up language: an LSTM encoder, and a decoder that searches with a beam.

    machine_translation.py [sparse|dense]
"""
import random
import sys
import tempfile

import numpy as np
import paddle
import paddle.fluid as fluid
import paddle.fluid.layers as pd

import made_sets

HIDDEN_DIM = 64
WORD_DIM = 32
DECODER_SIZE = HIDDEN_DIM
BATCH_SIZE = 32
MAX_LENGTH = 8
BEAM_SIZE = 3
START_ID, END_ID = 0, 1
GOAL = 0.9  # the share of new sentences whose best translation is right in every word


def encoder(source_size, is_sparse):
    src_word_id = pd.data(name='src_word_id', shape=[1], dtype='int64', lod_level=1)
    src_embedding = pd.embedding(input=src_word_id, size=[source_size, WORD_DIM], dtype='float32',
                                 is_sparse=is_sparse, param_attr=fluid.ParamAttr(name='source_emb'))
    fc1 = pd.fc(input=src_embedding, size=HIDDEN_DIM * 4, act='tanh', param_attr='encoder_fc_w',
                bias_attr='encoder_fc_b')
    lstm_hidden0, _ = pd.dynamic_lstm(input=fc1, size=HIDDEN_DIM * 4, param_attr='encoder_lstm_w',
                                      bias_attr='encoder_lstm_b')
    return pd.sequence_last_step(input=lstm_hidden0)


def target_embedding(ids, target_size, is_sparse):
    return pd.embedding(input=ids, size=[target_size, WORD_DIM], dtype='float32', is_sparse=is_sparse,
                        param_attr=fluid.ParamAttr(name='target_emb'))


def next_state(state, word):
    # The sum has the LoD of its first input: a state has none, and can be expanded again.
    return pd.fc(input=[state, word], size=DECODER_SIZE, act='tanh',
                 param_attr=[fluid.ParamAttr('decoder_state_w'), fluid.ParamAttr('decoder_word_w')],
                 bias_attr='decoder_b')


def word_scores(state, target_size):
    return pd.fc(input=state, size=target_size, act='softmax', param_attr='score_w', bias_attr='score_b')


def decoder_train(context, target_size, is_sparse):
    trg_language_word = pd.data(name='target_language_word', shape=[1], dtype='int64', lod_level=1)
    trg_embedding = target_embedding(trg_language_word, target_size, is_sparse)
    rnn = pd.DynamicRNN()
    with rnn.block():
        current_word = rnn.step_input(trg_embedding)
        pre_state = rnn.memory(init=context, need_reorder=True)
        current_state = next_state(pre_state, current_word)
        current_score = word_scores(current_state, target_size)
        rnn.update_memory(pre_state, current_state)
        rnn.output(current_score)
    return rnn()


def decoder_decode(context, target_size, is_sparse):
    init_state = context
    array_len = pd.fill_constant(shape=[1], dtype='int64', value=MAX_LENGTH)
    counter = pd.zeros(shape=[1], dtype='int64', force_cpu=True)

    # fill the first element with init_state
    state_array = pd.create_array('float32')
    pd.array_write(init_state, array=state_array, i=counter)

    # ids, scores as memory
    ids_array = pd.create_array('int64')
    scores_array = pd.create_array('float32')
    init_ids = pd.data(name='init_ids', shape=[1], dtype='int64', lod_level=2)
    init_scores = pd.data(name='init_scores', shape=[1], dtype='float32', lod_level=2)
    pd.array_write(init_ids, array=ids_array, i=counter)
    pd.array_write(init_scores, array=scores_array, i=counter)

    cond = pd.less_than(x=counter, y=array_len)
    while_op = pd.While(cond=cond)
    with while_op.block():
        pre_ids = pd.array_read(array=ids_array, i=counter)
        pre_state = pd.array_read(array=state_array, i=counter)
        pre_score = pd.array_read(array=scores_array, i=counter)

        # expand the lod of pre_state to be the same with pre_score
        pre_state_expanded = pd.sequence_expand(pre_state, pre_score)
        pre_ids_emb = target_embedding(pre_ids, target_size, is_sparse)
        current_state = next_state(pre_state_expanded, pre_ids_emb)
        current_state_with_lod = pd.lod_reset(x=current_state, y=pre_score)
        current_score = word_scores(current_state_with_lod, target_size)
        topk_scores, topk_indices = pd.topk(current_score, k=BEAM_SIZE)
        # calculate accumulated scores after topk to reduce computation cost
        accu_scores = pd.elementwise_add(x=pd.log(topk_scores), y=pd.reshape(pre_score, shape=[-1]), axis=0)
        selected_ids, selected_scores = pd.beam_search(
            pre_ids, pre_score, topk_indices, accu_scores, BEAM_SIZE, end_id=END_ID, level=0)

        pd.increment(x=counter, value=1, in_place=True)

        # update the memories
        pd.array_write(current_state, array=state_array, i=counter)
        pd.array_write(selected_ids, array=ids_array, i=counter)
        pd.array_write(selected_scores, array=scores_array, i=counter)

        # update the break condition: up to the max length or all candidates of
        # source sentences have ended.
        length_cond = pd.less_than(x=counter, y=array_len)
        finish_cond = pd.logical_not(pd.is_empty(x=selected_ids))
        pd.logical_and(x=length_cond, y=finish_cond, out=cond)

    return pd.beam_search_decode(ids=ids_array, scores=scores_array, beam_size=BEAM_SIZE, end_id=END_ID)


def train(sizes, is_sparse, exe, epochs):
    context = encoder(sizes[0], is_sparse)
    rnn_out = decoder_train(context, sizes[1], is_sparse)
    label = pd.data(name='target_language_next_word', shape=[1], dtype='int64', lod_level=1)
    avg_cost = pd.mean(pd.cross_entropy(input=rnn_out, label=label))
    fluid.optimizer.Adam(
        learning_rate=0.005,
        regularization=fluid.regularizer.L2DecayRegularizer(regularization_coeff=1e-6)).minimize(avg_cost)

    train_data = paddle.batch(
        paddle.reader.shuffle(paddle.dataset.wmt14.train(sizes[0]), buf_size=2000), batch_size=BATCH_SIZE)
    main_program = fluid.default_main_program()
    feeder = fluid.DataFeeder([main_program.global_block().var(name) for name in
                               ('src_word_id', 'target_language_word', 'target_language_next_word')], exe.place)
    exe.run(fluid.default_startup_program())
    for epoch in range(epochs):
        costs = [exe.run(main_program, feed=feeder.feed(data), fetch_list=[avg_cost])[0][0] for data in train_data()]
        print('epoch %d: cost %.3f' % (epoch + 1, np.mean(costs)))


def decode_feed(sources, place):
    """Source sentences, and for each of them one beam that holds the start mark."""
    count = len(sources)
    return {
        'src_word_id': fluid.create_lod_tensor(
            np.concatenate(sources).reshape(-1, 1).astype('int64'), [[len(s) for s in sources]], place),
        'init_ids': fluid.create_lod_tensor(np.full((count, 1), START_ID, 'int64'), [[1] * count, [1] * count], place),
        'init_scores': fluid.create_lod_tensor(np.ones((count, 1), 'float32'), [[1] * count, [1] * count], place),
    }


def best_sentences(ids):
    """The first candidate of every source sentence, without the marks at its ends."""
    candidates, words = ids.lod()
    numbers = np.array(ids).reshape(-1)
    return [[i for i in numbers[words[first]:words[first + 1]] if i not in (START_ID, END_ID)]
            for first in candidates[:-1]]


def main(kind):
    random.seed(1)  # the order of the samples
    fluid.default_startup_program().random_seed = 1
    place = fluid.CPUPlace()
    exe = fluid.Executor(place)
    with tempfile.TemporaryDirectory() as home, tempfile.TemporaryDirectory() as save_dirname:
        sizes = made_sets.wmt14(home)
        train(sizes, kind == 'sparse', exe, epochs=5)

        # The same parameters, by their names, in a program that searches.
        decode_program = fluid.Program()
        with fluid.program_guard(decode_program, fluid.Program()):
            context = encoder(sizes[0], kind == 'sparse')
            ids, scores = decoder_decode(context, sizes[1], kind == 'sparse')
        test = list(paddle.dataset.wmt14.test(sizes[0])())
        feed = decode_feed([source for source, _, _ in test], place)
        found_ids, found_scores = exe.run(decode_program, feed=feed, fetch_list=[ids, scores], return_numpy=False)
        wanted = [target[1:] for _, target, _ in test]
        right = np.mean([found == target for found, target in zip(best_sentences(found_ids), wanted)])

        fluid.io.save_inference_model(save_dirname, list(feed), [ids, scores], exe, main_program=decode_program)
        with fluid.scope_guard(fluid.core.Scope()):
            program, feed_names, fetch_targets = fluid.io.load_inference_model(save_dirname, exe)
            again = exe.run(program, feed={name: feed[name] for name in feed_names}, fetch_list=fetch_targets,
                            return_numpy=False)
        for a, b in zip(again, (found_ids, found_scores)):
            assert np.array_equal(np.array(a), np.array(b)) and a.lod() == b.lod(), 'the loaded model differs'
    print('%s: %.3f of the sentences are right (goal %.2f); the loaded model predicts the same' % (kind, right, GOAL))
    return 0 if right >= GOAL else 1


if __name__ == '__main__':
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else 'sparse'))
