"""Activations of paddle.nn.functional and element by element functions of 2.x."""
import paddle
import paddle.nn.functional as F
from case import case


def _plain(name, function, low=-2.0, high=2.5):
    def build(c):
        return function(c.x([3, 8], low, high))
    case(build, name)


_plain('f_celu', lambda x: F.celu(x, 0.7))
_plain('f_elu', lambda x: F.elu(x, 0.7))
_plain('f_gelu', F.gelu)
_plain('f_gelu_approximate', lambda x: F.gelu(x, True))
_plain('f_hardshrink', lambda x: F.hardshrink(x, 0.4))
_plain('f_hardtanh', lambda x: F.hardtanh(x, -0.8, 1.1))
_plain('f_hardsigmoid', lambda x: F.hardsigmoid(x))
_plain('f_hardswish', F.hardswish, -4.0, 4.2)
_plain('f_leaky_relu', lambda x: F.leaky_relu(x, 0.2))
_plain('f_log_sigmoid', F.log_sigmoid)
_plain('f_relu', F.relu)
_plain('f_relu6', F.relu6, -3.0, 8.0)
_plain('f_selu', F.selu)
_plain('f_sigmoid', F.sigmoid)
_plain('f_silu', F.silu)
_plain('f_softplus', F.softplus)
_plain('f_softplus_beta', lambda x: F.softplus(x, beta=2.5, threshold=3.0))
_plain('f_softshrink', lambda x: F.softshrink(x, 0.3))
_plain('f_softsign', F.softsign)
_plain('f_swish', F.swish)
_plain('f_mish', F.mish)
_plain('f_tanh', F.tanh)
_plain('f_tanhshrink', F.tanhshrink)
_plain('f_thresholded_relu', lambda x: F.thresholded_relu(x, 0.6))
_plain('f_softmax', F.softmax)
_plain('f_softmax_axis0', lambda x: F.softmax(x, axis=0))
_plain('f_log_softmax', F.log_softmax)
_plain('f_log_softmax_axis0', lambda x: F.log_softmax(x, axis=0))
_plain('f_glu', F.glu)
_plain('f_rrelu_tested', lambda x: F.rrelu(x, training=False))
_plain('p_acos', paddle.acos, -0.8, 0.9)
_plain('p_acosh', paddle.acosh, 1.2, 4.0)
_plain('p_asin', paddle.asin, -0.8, 0.9)
_plain('p_asinh', paddle.asinh)
_plain('p_atan', paddle.atan)
_plain('p_atanh', paddle.atanh, -0.8, 0.9)
_plain('p_cosh', paddle.cosh)
_plain('p_sinh', paddle.sinh)
_plain('p_tan', paddle.tan, -1.2, 1.3)
_plain('p_exp', paddle.exp)
_plain('p_expm1', paddle.expm1)
_plain('p_log2', paddle.log2, 0.3, 4.0)
_plain('p_log10', paddle.log10, 0.3, 4.0)
_plain('p_logit', paddle.logit, 0.1, 0.9)
_plain('p_logit_eps', lambda x: paddle.logit(x, 0.2), 0.05, 0.95)
_plain('p_neg', paddle.neg)
_plain('p_trunc', paddle.trunc)
_plain('p_frac', paddle.frac)
_plain('p_deg2rad', paddle.deg2rad)
_plain('p_rad2deg', paddle.rad2deg)
_plain('p_stanh', lambda x: paddle.stanh(x, 0.5, 1.5))
_plain('p_sgn', paddle.sgn)
_plain('p_rsqrt', paddle.rsqrt, 0.3, 4.0)
_plain('p_lerp', lambda x: paddle.lerp(x, paddle.square(x), 0.3))
_plain('p_clip_one_side', lambda x: paddle.clip(x, min=-0.5))


@case
def f_maxout(c):
    return F.maxout(c.x([2, 6, 3, 2]), 2), F.maxout(c.x([2, 3, 2, 6]), 3, axis=3)


@case
def f_prelu_one(c):
    return F.prelu(c.x([2, 3, 4]), c.x([1], 0.2, 0.3, fixed=True))


@case
def f_prelu_channels(c):
    return F.prelu(c.x([2, 3, 4, 4]), c.x([3], 0.1, 0.4, fixed=True))


@case
def f_prelu_channels_last(c):
    return F.prelu(c.x([2, 4, 4, 3]), c.x([3], 0.1, 0.4, fixed=True), data_format='NHWC')


@case
def p_atan2(c):
    return paddle.atan2(c.x([3, 5], -2.0, 2.2), c.x([3, 5], -1.5, 1.7))


@case
def p_logaddexp(c):
    return paddle.logaddexp(c.x([3, 5], -2.0, 2.2), c.x([3, 5], -1.5, 1.7))


@case
def p_hypot(c):
    return paddle.hypot(c.x([3, 5], -2.0, 2.2), c.x([3, 5], -1.5, 1.7))


@case
def p_fmax_fmin(c):
    x, y = c.x([3, 5], -2.0, 2.2), c.x([3, 5], -1.5, 1.7)
    return paddle.fmax(x, y), paddle.fmin(x, y)


@case
def p_heaviside(c):
    return paddle.heaviside(c.x([3, 5], -2.0, 2.2, grad=False), c.x([3, 5], -1.5, 1.7))


@case
def p_nan_to_num(c):
    import numpy as np
    return paddle.nan_to_num(c.given(np.array([[1, np.nan, np.inf, -np.inf]], 'float32')), 2.0, 7.0, -8.0)


@case
def p_tests_of_numbers(c):
    import numpy as np
    x = c.given(np.array([[1, np.nan, np.inf, -np.inf]], 'float32'))
    return paddle.isnan(x), paddle.isinf(x), paddle.isfinite(x)


@case
def p_isclose(c):
    import numpy as np
    x = c.given(np.array([[1, 2, np.inf, np.nan, 5]], 'float32'))
    y = c.given(np.array([[1.000001, 2.1, np.inf, np.nan, 5]], 'float32'))
    return paddle.isclose(x, y), paddle.isclose(x, y, equal_nan=True)
