"""What fluid.contrib adds, weight normalisation, rounding for quantised training, and detection_map."""
import numpy as np

import paddle.fluid as fluid
from paddle.fluid import contrib
from paddle.fluid.layer_helper import LayerHelper

from case import L, case

C = contrib.layers
O = fluid.optimizer


def _weight_norm(name, dim, net):
    def build(c):
        # Of one value everywhere, so that the lengths that the startup program makes are recorded too.
        return c.train(net(c, fluid.WeightNormParamAttr(dim=dim, name='w', initializer=fluid.initializer.Constant(0.3))), O.SGD(0.1))
    build.__module__ = __name__
    case(build, name)


def _dense(c, attr):
    return L.reduce_mean(L.square_error_cost(L.fc(L.fc(c.x([4, 5]), 3, act='tanh', param_attr=attr), 1), c.x([4, 1])))


def _images(c, attr):
    return L.reduce_mean(L.square(L.conv2d(c.x([2, 3, 5, 5]), 4, 3, param_attr=attr)))


_weight_norm('weight_norm_whole', None, _dense)
_weight_norm('weight_norm_rows', 0, _dense)
_weight_norm('weight_norm_columns', 1, _dense)
_weight_norm('weight_norm_filters', 0, _images)


@case
def fused_elemwise_add_relu(c):
    return C.fused_elemwise_activation(c.x([3, 4]), c.x([3, 4]), ['elementwise_add', 'relu'])


@case
def fused_elemwise_mul_scale(c):
    return C.fused_elemwise_activation(c.x([3, 4]), c.x([3, 4]), ['elementwise_mul', 'scale'], scale=0.3)


@case
def partial_concat(c):
    return C.partial_concat([c.x([3, 6]), c.x([3, 6])], 2, 3)


@case
def partial_sum(c):
    return C.partial_sum([c.x([3, 6]), c.x([3, 6]), c.x([3, 6])], 1, -1)


def _decoupled(base, **settings):
    return contrib.extend_with_decoupled_weight_decay(base)(weight_decay=0.02, **settings)


@case
def decoupled_sgd(c):
    return c.train(_dense(c, None), _decoupled(O.SGD, learning_rate=0.1))


@case
def decoupled_adam(c):
    return c.train(_dense(c, None), _decoupled(O.Adam, learning_rate=0.01))


def _op(type, inputs, outputs, attrs, dtypes=()):
    """The results of one op that has no layer."""
    helper = LayerHelper(type)
    made = dict((slot, helper.create_variable_for_type_inference(dict(dtypes).get(slot, 'float32')))
                for slot in outputs)
    helper.append_op(type=type, inputs=dict((slot, [var]) for slot, var in inputs.items()),
                     outputs=dict((slot, [var]) for slot, var in made.items()), attrs=attrs)
    for var in made.values():
        var.stop_gradient = True
    return [made[slot] for slot in outputs]


@case
def fake_quantize_abs_max(c):
    c.gradients = False
    return _op('fake_quantize_abs_max', {'X': c.x([3, 4])}, ['Out', 'OutScale'], {'bit_length': 5})


@case
def fake_channel_wise_quantize_abs_max(c):
    c.gradients = False
    return _op('fake_channel_wise_quantize_abs_max', {'X': c.x([3, 4, 2])}, ['Out', 'OutScale'], {'bit_length': 8})


@case
def fake_quantize_moving_average_test(c):
    c.gradients = False
    inputs = {'X': c.x([3, 4]), 'InScale': c.given(np.float32([0.7]), fixed=True)}
    return _op('fake_quantize_moving_average_abs_max', inputs, ['Out', 'OutScale'], {'bit_length': 8, 'is_test': True})[0]


@case
def fake_dequantize_max_abs(c):
    c.gradients = False
    return _op('fake_dequantize_max_abs', {'X': c.x([3, 4], -127, 127), 'Scale': c.given(np.float32([0.7]), fixed=True)},
               ['Out'], {'max_range': 127.0})


@case
def fake_channel_wise_dequantize_max_abs(c):
    c.gradients = False
    inputs = {'X': c.x([3, 4], -127, 127), 'Scales': c.given(np.float32([0.7, 0.2, 1.5]), fixed=True)}
    return _op('fake_channel_wise_dequantize_max_abs', inputs, ['Out'], {'quant_bits': [8]})


FOUND = np.float32([[1, .9, .1, .1, .5, .5], [1, .8, .1, .1, .4, .5], [2, .7, .2, .2, .8, .8], [1, .3, .6, .6, .9, .9],
                    [2, .6, .1, .1, .3, .3]])
MARKED = np.float32([[1, 0, .1, .1, .5, .5], [2, 0, .2, .2, .7, .8], [1, 0, .6, .6, .9, .9], [2, 1, .1, .1, .3, .4],
                     [1, 0, .0, .0, .2, .2]])


def _map(name, **attrs):
    def build(c):
        c.gradients = False
        settings = dict({'class_num': 3, 'background_label': 0, 'overlap_threshold': 0.5, 'evaluate_difficult': True,
                         'ap_type': 'integral'}, **attrs)
        return _op('detection_map', {'DetectRes': c.given(FOUND, lod=[[3, 2]]), 'Label': c.given(MARKED, lod=[[2, 3]])},
                   ['MAP', 'AccumPosCount', 'AccumTruePos', 'AccumFalsePos'], settings, [('AccumPosCount', 'int32')])[0]
    build.__module__ = __name__
    case(build, name)


_map('detection_map')
_map('detection_map_overlap', overlap_threshold=0.7)
_map('detection_map_11point', ap_type='11point')
_map('detection_map_without_difficult', evaluate_difficult=False, overlap_threshold=0.7)


@case
def match_matrix_tensor(c):
    return C.match_matrix_tensor(c.x([5, 3], lod=[[2, 3]]), c.x([4, 3], lod=[[3, 1]]), 2)[0]


@case
def match_matrix_tensor_relu(c):
    return C.match_matrix_tensor(c.x([5, 2], lod=[[1, 2, 2]]), c.x([6, 2], lod=[[3, 1, 2]]), 1, act='relu')[0]


def _sizes(c, heights, widths, channels):
    """Images in rows; the numbers of the operands that say their sizes do not count."""
    image = c.x([channels * sum(h * w for h, w in zip(heights, widths)), 1],
                lod=[[channels * h * w for h, w in zip(heights, widths)]])
    return [image, c.x([sum(heights), 1], lod=[heights], grad=False), c.x([sum(widths), 1], lod=[widths], grad=False)]


@case
def var_conv_2d(c):
    return C.var_conv_2d(*_sizes(c, [5, 4, 1], [6, 3, 2], 2) + [2, 3, [3, 3]])


@case
def var_conv_2d_steps(c):
    return C.var_conv_2d(*_sizes(c, [5, 4], [3, 7], 1) + [1, 2, [2, 3]], stride=[2, 3], act='tanh')


@case
def sequence_topk_avg_pooling(c):
    return C.sequence_topk_avg_pooling(*_sizes(c, [2, 3], [4, 2], 2) + [[1, 3], 2])


EDGES = np.int32([[[1, 2], [1, 3], [1, 4], [3, 5], [3, 6], [0, 0]], [[2, 1], [1, 3], [3, 4], [4, 6], [4, 5], [0, 0]]])


@case
def tree_conv(c):
    return C.tree_conv(c.x([2, 6, 3]), c.given(EDGES), 4, 2)


@case
def tree_conv_depth(c):
    return C.tree_conv(c.x([2, 6, 3]), c.given(EDGES), 2, 1, max_depth=4, act=None, bias_attr=False)


def _sampled(c, travel, layer, leaves, *settings, **more):
    c.gradients = False
    travel, layer = np.int32(travel), np.int32(layer).reshape([-1, 1])
    c.initial = {'travel': travel, 'layer': layer}
    made = C.tdm_sampler(c.given(np.int32(leaves).reshape([-1, 1])), *settings + (len(travel),),
                         tree_travel_attr=fluid.ParamAttr(name='travel'), tree_layer_attr=fluid.ParamAttr(name='layer'), **more)
    return sum(made, []) if isinstance(made[0], list) else list(made)


@case
def tdm_sampler(c):
    """Nothing is drawn: the ways alone, one of which ends early."""
    return _sampled(c, [[1, 3], [1, 4], [2, 5], [2, 0]], [1, 2, 3, 4, 5], [0, 1, 3, 2], [0, 0], [2, 3], output_list=False)


@case
def tdm_sampler_lists(c):
    """One other node is drawn of two."""
    return _sampled(c, [[1, 3], [1, 4], [2, 5], [2, 6]], [1, 2, 3, 4, 5, 6], [0, 3], [1, 0], [2, 4])


def _cell(c, **inputs):
    """One state of four numbers: tanh of it and of the inputs."""
    cell = contrib.StateCell(inputs=dict.fromkeys(inputs), states={'h': contrib.InitState(init=c.x([2, 4]))}, out_state='h')

    @cell.state_updater
    def update(cell):
        cell.set_state('h', L.fc([cell.get_state('h')] + [cell.get_input(name) for name in sorted(inputs)], 4, act='tanh'))
    return cell


@case
def training_decoder(c):
    words = L.embedding(c.ids([5, 1], 6, lod=[[3, 2]]), [6, 3])
    decoder = contrib.TrainingDecoder(_cell(c, x=None))
    with decoder.block():
        decoder.state_cell.compute_state(inputs={'x': decoder.step_input(words)})
        score = L.fc(decoder.state_cell.get_state('h'), 6, act='softmax')
        decoder.state_cell.update_states()
        decoder.output(score)
    return decoder()


def _found(c, cell, **more):
    begins = c.given(np.int64([[0], [0]]), lod=[[1, 1], [1, 1]]), c.given(np.float32([[1], [1]]), lod=[[1, 1], [1, 1]])
    c.gradients = False
    decoder = contrib.BeamSearchDecoder(cell, begins[0], begins[1], 6, 3, topk_size=4, sparse_emb=False, max_len=5,
                                        beam_size=2, end_id=1, **more)
    decoder.decode()
    return list(decoder())


@case
def beam_search_decoder(c):
    return _found(c, _cell(c, x=None))


@case
def beam_search_decoder_of_two_inputs(c):
    return _found(c, _cell(c, x=None, y=None), input_var_dict={'y': c.x([2, 2])})


@case
def beam_search_decoder_that_ends(c):
    return _found(c, _cell(c, x=None))


def _rounded(name, activation):
    """Ten steps of training on rounded operands."""
    def build(c):
        image, label = c.x([6, 1, 6, 6]), c.ids([6, 1], 3)
        hidden = L.pool2d(L.conv2d(image, 2, 3, act='relu'), 2, 'max', 2)
        score = L.fc(hidden, 3, act='softmax')
        loss = L.reduce_mean(L.cross_entropy(score, label))
        main, startup = fluid.default_main_program(), fluid.default_startup_program()
        test = main.clone(for_test=True)
        c.train(loss, O.SGD(0.1))
        transpiler = contrib.QuantizeTranspiler(activation_quantize_type=activation)
        transpiler.training_transpile(main, startup)

        def frozen(exe):
            """What the program on whole numbers gives. Scales that are kept would go on moving in the original."""
            transpiler.training_transpile(test, fluid.Program())
            transpiler.freeze_program(test, fluid.CPUPlace())
            return {'frozen': exe.run(test, feed=c.feed(3), fetch_list=[score.name])[0]}
        if activation == 'abs_max':
            c.after = frozen
        return loss
    build.__module__ = __name__
    case(build, name)


_rounded('rounded_by_the_largest', 'abs_max')
_rounded('rounded_by_a_window', 'range_abs_max')
_rounded('rounded_by_an_average', 'moving_average_abs_max')
