"""Layers of click models, of distributions, of decoders that take their words from elsewhere, and some more."""
import numpy as np
import paddle.fluid as fluid

from case import L, case

LENGTHS = [[2, 1, 3]]


@case
def continuous_value_model(c):
    return L.continuous_value_model(c.x([3, 5], 0.1, 2.0), c.x([3, 2], 0.1, 1.0, grad=False))


@case
def continuous_value_model_dropped(c):
    return L.continuous_value_model(c.x([3, 5], 0.1, 2.0), c.x([3, 2], 0.1, 1.0, grad=False), False)


@case
def add_position_encoding(c):
    return [L.add_position_encoding(c.x([2, 3, 6]), 0.7, 1.3), L.add_position_encoding(c.x([6, 4], lod=LENGTHS), 1.0, 0.5),
            L.add_position_encoding(c.x([2, 3, 2]), 1.0, 1.0)]


def _hashed(x, num_hash, mod_by):
    """The op alone: the original's layer refuses whatever it is given."""
    block = fluid.default_main_program().global_block()
    out = block.create_var(dtype=x.dtype, stop_gradient=True)
    numbers = dict(num_hash=num_hash, mod_by=mod_by)
    block.append_op(attrs=numbers, inputs={'X': [x]}, outputs={'Out': [out]}, type='hash')
    return out


@case
def hash_rows(c):
    return [_hashed(c.ids([4, 1], 1000), 4, 10000), _hashed(c.ids([4, 3], 1000, lod=[[3, 1]]), 2, 1000003),
            _hashed(c.ids([2, 9], 1000), 2, 1000003)]


@case
def hash_rows_of_int32(c):
    return [_hashed(c.ids([4, 5], 1000, dtype='int32'), 3, 10007), _hashed(c.ids([2, 11], 1000, dtype='int32'), 2, 10007)]


@case
def filter_by_instag(c):
    tags = c.given(np.array([0, 1, 1, 3, 2], 'int64'), lod=[[1, 2, 1, 1]])
    return list(L.filter_by_instag(c.x([4, 3], lod=[[1, 1, 1, 1]]), tags, c.given(np.array([1, 2], 'int64'), fixed=True), True))


@case
def filter_by_instag_sequences(c):
    tags = c.given(np.array([0, 1, 1], 'int64'), lod=[[1, 1, 1]])
    return L.filter_by_instag(c.x([6, 3], lod=LENGTHS), tags, c.given(np.array([1], 'int64'), fixed=True), True)[0]


@case
def filter_by_instag_rows(c):
    tags = c.given(np.array([0, 1, 1, 3], 'int64'), lod=[[1, 1, 1, 1]])
    return list(L.filter_by_instag(c.x([4, 3]), tags, c.given(np.array([3], 'int64'), fixed=True), False))


@case
def filter_by_instag_nothing(c):
    tags = c.given(np.array([0, 1, 1], 'int64'), lod=[[1, 1, 1]])
    return list(L.filter_by_instag(c.x([3, 3], lod=[[1, 1, 1]]), tags, c.given(np.array([7], 'int64'), fixed=True), True, 5))


@case
def addmm(c):
    return [L.addmm(c.x([3, 4]), c.x([3, 2]), c.x([2, 4], fixed=True), 0.5, 2.0),
            L.addmm(c.x([1, 4]), c.x([3, 2]), c.x([2, 4], fixed=True))]


@case
def randperm(c):
    c.random = True
    return [L.randperm(7), L.randperm(5, dtype='int32')]


@case
def lod_append_of_a_variable(c):
    x = c.x([6, 2])
    return [L.lod_append(x, [0, 2, 6]), L.lod_append(x, c.x([6, 1], lod=[[1, 1, 4]], grad=False))]


@case
def normal_of_numbers(c):
    a, b = L.Normal(0.5, 1.5), L.Normal([0.25, 2.0], [1.0, 2.0])
    return [a.entropy(), a.log_prob(c.x([4])), b.entropy(), a.kl_divergence(b)]


@case
def normal_of_variables(c):
    a, b = L.Normal(c.x([3]), c.x([3], 0.5, 2.0)), L.Normal(c.x([3]), c.x([3], 0.5, 2.0))
    return [a.entropy(), a.log_prob(c.x([3])), a.kl_divergence(b)]


@case
def uniform_of_numbers(c):
    a, b = L.Uniform(0.0, 2.0), L.Uniform([-1.0, 0.0], [3.0, 0.75])
    return [a.entropy(), a.log_prob(c.x([4], -1.0, 3.0)), b.entropy(), b.log_prob(c.x([2]))]


@case
def uniform_of_variables(c):
    a = L.Uniform(c.x([3], -1.0, 0.0), c.x([3], 0.5, 2.0))
    return [a.entropy(), a.log_prob(c.x([3], -2.0, 2.0))]


@case
def distributions_drawn(c):
    c.random = True
    numbers = [L.Normal(0.5, 1.5), L.Normal([0.25, 2.0], [1.0, 2.0]), L.Uniform(0.0, 2.0), L.Uniform([-1.0, 0.0], [3.0, 0.75])]
    return [each.sample([3, 4], seed=7) for each in numbers]


@case
def distributions_drawn_of_variables(c):
    c.random = True
    return [L.Normal(c.x([3]), c.x([3], 0.5, 2.0)).sample([4]), L.Uniform(c.x([3]), c.x([3], 1.5, 2.0)).sample([2, 4])]


@case
def categorical(c):
    a, b = L.Categorical(c.x([2, 4])), L.Categorical(c.x([2, 4]))
    return [a.entropy(), a.kl_divergence(b)]


@case
def multivariate_normal_diag(c):
    scale = np.array([[0.4, 0], [0, 0.5]], 'float32')
    other = np.array([[0.2, 0], [0, 0.75]], 'float32')
    a = L.MultivariateNormalDiag(c.x([2]), c.given(scale, fixed=True, grad=True))
    b = L.MultivariateNormalDiag(c.x([2], 0.5, 2.0), c.given(other, fixed=True))
    return [a.entropy(), a.kl_divergence(b)]


def _embed(ids):
    return fluid.embedding(ids, [7, 5], param_attr='words')


def _out(x):
    return L.fc(x, 7, param_attr='o', bias_attr='ob')


@case
def greedy_embedding_helper(c):
    c.gradients = False
    helper = L.GreedyEmbeddingHelper(_embed, c.given(np.array([1, 3, 5], 'int64')), 0)
    decoder = L.BasicDecoder(L.GRUCell(hidden_size=4), helper, output_fn=_out)
    outputs, states, lengths = L.dynamic_decode(decoder, inits=c.x([3, 4]), max_step_num=5, return_length=True)
    return [outputs.cell_outputs, outputs.sample_ids, states, lengths]


@case
def sample_embedding_helper(c):
    c.gradients = False
    c.random = True
    helper = L.SampleEmbeddingHelper(_embed, c.given(np.array([1, 3, 5], 'int64')), 6, softmax_temperature=0.7, seed=3)
    decoder = L.BasicDecoder(L.GRUCell(hidden_size=4), helper, output_fn=_out)
    outputs, states = L.dynamic_decode(decoder, inits=c.x([3, 4]), max_step_num=0)
    return [outputs.cell_outputs, outputs.sample_ids, states]


@case
def training_helper_by_time(c):
    x, state = c.x([4, 2, 5], fixed=True), c.x([2, 3], fixed=True)
    helper = L.TrainingHelper(x, c.given(np.array([2, 4], 'int32'), fixed=True), time_major=True)
    decoder = L.BasicDecoder(L.GRUCell(hidden_size=3), helper)
    outputs, states = L.dynamic_decode(decoder, inits=state, impute_finished=True, output_time_major=True)
    return [outputs.cell_outputs, states]
