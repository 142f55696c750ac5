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
