"""What case.py takes from paddle.fluid, for PaddlePaddle 2.6.2, which has no fluid any more."""
import paddle
from paddle.base import core, unique_name  # noqa: F401
from paddle.static import Executor, Program, append_backward, data, global_scope, program_guard, scope_guard  # noqa: F401

paddle.enable_static()
CPUPlace = paddle.CPUPlace
Scope = core.Scope


class optimizer:
    SGD = paddle.optimizer.SGD


class backward:
    append_backward = staticmethod(append_backward)


class layers:
    reduce_sum = staticmethod(paddle.sum)
    elementwise_mul = staticmethod(paddle.multiply)
    sums = staticmethod(paddle.add_n)


def create_lod_tensor(values, lod, place):
    raise NotImplementedError('cases of 2.x have no LoD')
