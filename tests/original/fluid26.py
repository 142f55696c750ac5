"""What case.py takes from paddle.fluid, for PaddlePaddle 2.6.2, which has no fluid any more."""
import paddle
from paddle.base import core, unique_name
from paddle.static import Executor, Program, append_backward, data, global_scope, program_guard, scope_guard

__all__ = ['CPUPlace', 'Executor', 'Program', 'Scope', 'backward', 'core', 'create_lod_tensor', 'data', 'global_scope',
           'layers', 'optimizer', 'program_guard', 'scope_guard', 'unique_name']

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
