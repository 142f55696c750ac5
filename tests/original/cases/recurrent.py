"""Recurrent layers, cells and decoders."""
import numpy as np

import paddle.fluid as fluid
from case import L, case

LENGTHS = [[3, 1, 2]]


def _lstm(name, **arguments):
    def build(c):
        return list(L.dynamic_lstm(c.x([6, 12], lod=LENGTHS), size=12, **arguments))
    build.__module__ = __name__
    case(build, 'dynamic_lstm' + name)


_lstm('')
_lstm('_no_peepholes', use_peepholes=False)
_lstm('_reverse', is_reverse=True)
_lstm('_activations', gate_activation='sigmoid', cell_activation='relu', candidate_activation='tanh')


@case
def dynamic_lstm_hidden(c):
    return L.dynamic_lstm(c.x([6, 12], lod=LENGTHS), size=12)[0]


@case
def dynamic_lstm_hidden_reverse(c):
    return L.dynamic_lstm(c.x([6, 12], lod=LENGTHS), size=12, is_reverse=True, use_peepholes=False,
                          cell_activation='relu')[0]


@case
def dynamic_lstm_hidden_initial(c):
    return L.dynamic_lstm(c.x([6, 12], lod=LENGTHS), size=12, h_0=c.x([3, 3]), c_0=c.x([3, 3]))[0]


@case
def dynamic_lstmp_projection(c):
    return L.dynamic_lstmp(c.x([6, 12], lod=LENGTHS), size=12, proj_size=2, cell_clip=0.3, proj_clip=0.2)[0]


@case
def dynamic_lstmp_projection_reverse(c):
    return L.dynamic_lstmp(c.x([6, 12], lod=LENGTHS), size=12, proj_size=2, is_reverse=True,
                           use_peepholes=False)[0]


@case
def dynamic_lstm_initial(c):
    return list(L.dynamic_lstm(c.x([6, 12], lod=LENGTHS), size=12, h_0=c.x([3, 3]), c_0=c.x([3, 3]),
                               use_peepholes=False))


def _lstmp(name, **arguments):
    def build(c):
        return list(L.dynamic_lstmp(c.x([6, 12], lod=LENGTHS), size=12, proj_size=2, **arguments))
    build.__module__ = __name__
    case(build, 'dynamic_lstmp' + name)


_lstmp('')
_lstmp('_reverse', is_reverse=True, use_peepholes=False, proj_activation='identity')
_lstmp('_clipped', cell_clip=0.2, proj_clip=0.1)


def _gru(name, **arguments):
    def build(c):
        return L.dynamic_gru(c.x([6, 9], lod=LENGTHS), size=3, **arguments)
    build.__module__ = __name__
    case(build, 'dynamic_gru' + name)


_gru('')
_gru('_reverse', is_reverse=True)
_gru('_origin', origin_mode=True)
_gru('_activations', gate_activation='sigmoid', candidate_activation='relu', bias_attr=False)


@case
def dynamic_gru_initial(c):
    return L.dynamic_gru(c.x([6, 9], lod=LENGTHS), size=3, h_0=c.x([3, 3]))


@case
def gru_unit(c):
    return list(L.gru_unit(c.x([4, 9]), c.x([4, 3]), size=9))


@case
def gru_unit_origin(c):
    return list(L.gru_unit(c.x([4, 9]), c.x([4, 3]), size=9, origin_mode=True))


@case
def gru_unit_activations(c):
    gates, before = c.x([4, 9]), c.x([4, 3])
    return [L.gru_unit(gates, before, size=9, param_attr='w', bias_attr='b', activation=activation)[0]
            for activation in ('tanh', 'relu', 'identity')]


@case
def lstm_unit(c):
    return list(L.lstm_unit(c.x([4, 5]), c.x([4, 3]), c.x([4, 3])))


@case
def lstm_unit_forget(c):
    return list(L.lstm_unit(c.x([4, 5]), c.x([4, 3]), c.x([4, 3]), forget_bias=1.0, bias_attr=False))


@case
def gru_cell(c):
    out, state = L.GRUCell(hidden_size=3)(c.x([4, 5]), c.x([4, 3]))
    return [out, state]


@case
def lstm_cell(c):
    out, (hidden, cell) = L.LSTMCell(hidden_size=3)(c.x([4, 5]), [c.x([4, 3]), c.x([4, 3])])
    return [out, hidden, cell]


@case
def rnn_of_gru_cell(c):
    out, state = L.rnn(L.GRUCell(hidden_size=3), c.x([2, 4, 5]))
    return [out, state]


@case
def rnn_of_lstm_cell_with_lengths(c):
    out, (hidden, cell) = L.rnn(L.LSTMCell(hidden_size=3), c.x([2, 4, 5]),
                                sequence_length=c.given(np.array([4, 2], 'int64')))
    return [out, hidden, cell]


@case
def rnn_reversed_time_major(c):
    out, state = L.rnn(L.GRUCell(hidden_size=3), c.x([4, 2, 5], fixed=True), time_major=True, is_reverse=True)
    return [out, state]


@case
def static_rnn(c):
    x = c.x([4, 2, 3], fixed=True)
    rnn = L.StaticRNN()
    with rnn.step():
        word = rnn.step_input(x)
        before = rnn.memory(shape=[-1, 5], batch_ref=word)
        hidden = L.fc([word, before], 5, act='tanh')
        rnn.update_memory(before, hidden)
        rnn.step_output(hidden)
    return rnn()


@case
def static_rnn_with_state(c):
    x, boot = c.x([4, 2, 3], fixed=True), c.x([2, 3], fixed=True)
    rnn = L.StaticRNN()
    with rnn.step():
        word = rnn.step_input(x)
        before = rnn.memory(init=boot)
        hidden = L.elementwise_add(word, L.scale(before, 0.5))
        rnn.update_memory(before, hidden)
        rnn.output(hidden, L.tanh(hidden))
    return rnn()


@case
def dynamic_rnn(c):
    x = c.x([6, 3], lod=LENGTHS)
    rnn = L.DynamicRNN()
    with rnn.block():
        word = rnn.step_input(x)
        before = rnn.memory(shape=[5], value=0.0)
        hidden = L.fc([word, before], 5, act='tanh')
        rnn.update_memory(before, hidden)
        rnn.output(hidden)
    return [rnn(), L.sequence_last_step(rnn())]


@case
def dynamic_rnn_with_static_input(c):
    x, boot, static = c.x([6, 3], lod=LENGTHS), c.x([3, 4]), c.x([3, 2])
    rnn = L.DynamicRNN()
    with rnn.block():
        word = rnn.step_input(x)
        beside = rnn.static_input(static)
        before = rnn.memory(init=boot, need_reorder=True)
        hidden = L.fc([word, beside, before], 4, act='relu')
        rnn.update_memory(before, hidden)
        rnn.output(hidden)
    return rnn()


@case
def beam_search(c):
    pre_ids = c.given(np.array([[1], [2]], 'int64'), lod=[[1, 1], [1, 1]])
    pre_scores = c.given(np.array([[0.1], [0.2]], 'float32'), lod=[[1, 1], [1, 1]])
    scores = c.x([2, 5], 0.1, 0.9, lod=[[1, 1], [1, 1]], grad=False)
    top_scores, top_ids = L.topk(scores, k=3)
    accumulated = L.elementwise_add(L.log(top_scores), pre_scores, axis=0)
    ids, found, parents = L.beam_search(pre_ids, pre_scores, top_ids, accumulated, beam_size=2, end_id=0,
                                        return_parent_idx=True)
    return [ids, found, parents]


def _translate(c, beam, steps):
    """A decoder written with While and arrays, as old programs write it."""
    init_ids = c.given(np.ones((2, 1), 'int64'), lod=[[1, 1], [1, 1]])
    init_scores = c.given(np.ones((2, 1), 'float32'), lod=[[1, 1], [1, 1]])
    context = c.x([2, 4], grad=False)
    limit = L.fill_constant([1], 'int64', steps)
    counter = L.zeros([1], 'int64', force_cpu=True)
    states, ids, scores = L.create_array('float32'), L.create_array('int64'), L.create_array('float32')
    L.array_write(context, counter, states)
    L.array_write(init_ids, counter, ids)
    L.array_write(init_scores, counter, scores)
    going = L.less_than(counter, limit)
    loop = L.While(going)
    with loop.block():
        before = L.array_read(ids, counter)
        state = L.array_read(states, counter)
        score = L.array_read(scores, counter)
        state = L.sequence_expand(state, score)
        word = L.embedding(before, [6, 4], param_attr='words')
        now = L.fc([state, word], 4, act='tanh', param_attr=['s', 'w'], bias_attr='b')
        probabilities = L.softmax(L.fc(L.lod_reset(now, y=score), 6, param_attr='o', bias_attr='ob'))
        top_scores, top_ids = L.topk(probabilities, k=beam)
        accumulated = L.elementwise_add(L.log(top_scores), L.reshape(score, [-1]), axis=0)
        chosen, chosen_scores = L.beam_search(before, score, top_ids, accumulated, beam, end_id=0)
        with L.Switch() as switch:
            with switch.case(L.is_empty(chosen)):
                L.fill_constant([1], 'bool', False, force_cpu=True, out=going)
            with switch.default():
                L.increment(counter, 1, in_place=True)
                L.array_write(now, counter, states)
                L.array_write(chosen, counter, ids)
                L.array_write(chosen_scores, counter, scores)
                more = L.less_than(counter, limit)
                L.logical_and(more, L.logical_not(L.is_empty(chosen)), out=going)
    return L.beam_search_decode(ids, scores, beam, end_id=0)


@case
def beam_search_decode(c):
    return list(_translate(c, 2, 4))


@case
def beam_search_decode_of_three(c):
    return list(_translate(c, 3, 3))


def _decoder(beam):
    cell = L.GRUCell(hidden_size=4)
    return L.BeamSearchDecoder(cell, start_token=1, end_token=0, beam_size=beam,
                               embedding_fn=lambda ids: fluid.embedding(ids, [7, 5], param_attr='words'),
                               output_fn=lambda x: L.fc(x, 7, num_flatten_dims=2, param_attr='o', bias_attr='ob'))


@case
def dynamic_decode(c):
    c.gradients = False
    outputs, states = L.dynamic_decode(_decoder(2), inits=c.x([3, 4]), max_step_num=4)
    return outputs


@case
def dynamic_decode_with_length(c):
    c.gradients = False
    outputs, states, lengths = L.dynamic_decode(_decoder(3), inits=c.x([2, 4]), max_step_num=5,
                                                return_length=True, output_time_major=True)
    return [outputs, lengths]


@case
def training_helper(c):
    x, state = c.x([2, 4, 5], fixed=True), c.x([2, 3], fixed=True)
    helper = L.TrainingHelper(x, c.given(np.array([4, 3], 'int32'), fixed=True))
    decoder = L.BasicDecoder(L.GRUCell(hidden_size=3), helper)
    outputs, states, lengths = L.dynamic_decode(decoder, inits=state, return_length=True, is_test=False)
    return [outputs.cell_outputs, outputs.sample_ids, states, lengths]
