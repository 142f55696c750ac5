"""Who does what to whom: eight stacked LSTMs in both directions, and a CRF over the tags.

    label_semantic_roles.py
"""
import random
import sys
import tempfile

import numpy as np
import paddle
import paddle.dataset.conll05 as conll05
import paddle.fluid as fluid

import made_sets

WORD_DIM = 32
MARK_DIM = 5
HIDDEN_DIM = 64
DEPTH = 8
MIX_HIDDEN_LR = 10.0
BATCH_SIZE = 10
EMBEDDING_NAME = 'emb'
GOAL = 0.95  # F1 of the chunks


def load_parameter(file_name, h, w):
    with open(file_name, 'rb') as f:
        f.read(16)  # skip header.
        return np.fromfile(f, dtype=np.float32).reshape(h, w)


def db_lstm(word, predicate, ctx_n2, ctx_n1, ctx_0, ctx_p1, ctx_p2, mark, dict_lens):
    word_dict_len, pred_dict_len, label_dict_len = dict_lens
    predicate_embedding = fluid.layers.embedding(
        input=predicate, size=[pred_dict_len, WORD_DIM], dtype='float32', is_sparse=True,
        param_attr='vemb')
    mark_embedding = fluid.layers.embedding(input=mark, size=[2, MARK_DIM], dtype='float32',
                                            is_sparse=True)
    word_input = [word, ctx_n2, ctx_n1, ctx_0, ctx_p1, ctx_p2]
    emb_layers = [
        fluid.layers.embedding(size=[word_dict_len, WORD_DIM], input=x,
                               param_attr=fluid.ParamAttr(name=EMBEDDING_NAME, trainable=False))
        for x in word_input
    ]
    emb_layers.append(predicate_embedding)
    emb_layers.append(mark_embedding)
    hidden_0_layers = [fluid.layers.fc(input=emb, size=HIDDEN_DIM, act='tanh') for emb in emb_layers]
    hidden_0 = fluid.layers.sums(input=hidden_0_layers)
    lstm_0 = fluid.layers.dynamic_lstm(input=hidden_0, size=HIDDEN_DIM, candidate_activation='relu',
                                       gate_activation='sigmoid', cell_activation='sigmoid')

    # stack L-LSTM and R-LSTM with direct edges
    input_tmp = [hidden_0, lstm_0[0]]
    for i in range(1, DEPTH):
        mix_hidden = fluid.layers.sums(input=[
            fluid.layers.fc(input=input_tmp[0], size=HIDDEN_DIM, act='tanh'),
            fluid.layers.fc(input=input_tmp[1], size=HIDDEN_DIM, act='tanh')
        ])
        lstm = fluid.layers.dynamic_lstm(
            input=mix_hidden, size=HIDDEN_DIM, candidate_activation='relu',
            gate_activation='sigmoid', cell_activation='sigmoid', is_reverse=((i % 2) == 1))
        input_tmp = [mix_hidden, lstm[0]]

    return fluid.layers.sums(input=[
        fluid.layers.fc(input=input_tmp[0], size=label_dict_len, act='tanh'),
        fluid.layers.fc(input=input_tmp[1], size=label_dict_len, act='tanh')
    ])


FEED_ORDER = ['word_data', 'ctx_n2_data', 'ctx_n1_data', 'ctx_0_data', 'ctx_p1_data', 'ctx_p2_data',
              'verb_data', 'mark_data', 'target']


def train(save_dirname, epochs):
    dicts = conll05.get_dict()
    inputs = {name: fluid.layers.data(name=name, shape=[1], dtype='int64', lod_level=1)
              for name in FEED_ORDER}
    word, n2, n1, ctx_0, p1, p2, predicate, mark, target = [inputs[name] for name in FEED_ORDER]
    feature_out = db_lstm(word, predicate, n2, n1, ctx_0, p1, p2, mark, [len(d) for d in dicts])
    crf_cost = fluid.layers.linear_chain_crf(
        input=feature_out, label=target,
        param_attr=fluid.ParamAttr(name='crfw', learning_rate=MIX_HIDDEN_LR))
    avg_cost = fluid.layers.mean(crf_cost)
    crf_decode = fluid.layers.crf_decoding(input=feature_out, param_attr=fluid.ParamAttr(name='crfw'))
    # B-x is 2 * type, I-x the next number and O the last: the scheme IOB.
    counts = fluid.layers.chunk_eval(input=crf_decode, label=target, chunk_scheme='IOB',
                                     num_chunk_types=(len(dicts[2]) - 1) // 2)[3:]
    test_program = fluid.default_main_program().clone(for_test=True)
    fluid.optimizer.SGD(learning_rate=fluid.layers.exponential_decay(
        learning_rate=0.03, decay_steps=100000, decay_rate=0.5, staircase=True)).minimize(avg_cost)

    train_data = paddle.batch(
        paddle.reader.shuffle(paddle.reader.firstn(conll05.test(), 240), buf_size=8192),
        batch_size=BATCH_SIZE)
    held_out = paddle.batch(lambda: list(conll05.test()())[240:], batch_size=BATCH_SIZE)
    place = fluid.CPUPlace()
    feeder = fluid.DataFeeder(feed_list=[inputs[name] for name in FEED_ORDER], place=place)
    exe = fluid.Executor(place)
    exe.run(fluid.default_startup_program())
    embedding_param = fluid.global_scope().find_var(EMBEDDING_NAME).get_tensor()
    embedding_param.set(load_parameter(conll05.get_embedding(), len(dicts[0]), WORD_DIM), place)

    chunk_evaluator = fluid.metrics.ChunkEvaluator()
    for epoch in range(epochs):
        for data in train_data():
            cost, = exe.run(fluid.default_main_program(), feed=feeder.feed(data), fetch_list=[avg_cost])
        chunk_evaluator.reset()
        for data in held_out():
            chunk_evaluator.update(*exe.run(test_program, feed=feeder.feed(data), fetch_list=counts))
        precision, recall, f1_score = chunk_evaluator.eval()
        print('epoch %d: cost %.3f, precision %.3f, recall %.3f, f1 %.3f' %
              (epoch + 1, cost[0], precision, recall, f1_score))
    fluid.io.save_inference_model(save_dirname, FEED_ORDER[:-1], [crf_decode], exe)

    sample = feeder.feed(next(held_out())[:4])
    expected, = exe.run(test_program, feed=sample, fetch_list=[crf_decode], return_numpy=False)
    del sample['target']
    return f1_score, sample, expected


def infer(save_dirname, sample):
    exe = fluid.Executor(fluid.CPUPlace())
    with fluid.scope_guard(fluid.core.Scope()):
        inference_program, feed_target_names, fetch_targets = fluid.io.load_inference_model(
            save_dirname, exe)
        assert feed_target_names == FEED_ORDER[:-1]
        results, = exe.run(inference_program, feed=sample, fetch_list=fetch_targets, return_numpy=False)
    return results


def main():
    random.seed(1)  # the order of the samples
    fluid.default_startup_program().random_seed = 1
    with tempfile.TemporaryDirectory() as home, tempfile.TemporaryDirectory() as save_dirname:
        made_sets.conll05(home)
        f1, sample, expected = train(save_dirname, epochs=6)
        tags = infer(save_dirname, sample)
        assert np.array_equal(np.array(tags), np.array(expected)), 'the loaded model differs'
        assert tags.recursive_sequence_lengths() == expected.recursive_sequence_lengths()
    print('f1 %.3f (goal %.2f); the loaded model predicts the same' % (f1, GOAL))
    return 0 if f1 >= GOAL else 1


if __name__ == '__main__':
    sys.exit(main())
