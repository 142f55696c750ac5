"""Numbers drawn under a seed. Ours are the original's where FLAGS_original_random asks for them (replay.py)."""
import paddle.fluid as fluid
from case import L, case

SEEDS = (1, 7, 123456789, 2147483647, -5)
TYPES = fluid.core.VarDesc.VarType


def _drawn(name, shape, dtype, type_, **attrs):
    block = fluid.default_main_program().global_block()
    out = block.create_var(name=name, dtype=dtype, shape=shape)
    wire = {'float32': TYPES.FP32, 'float64': TYPES.FP64, 'int32': TYPES.INT32, 'int64': TYPES.INT64}[dtype]
    block.append_op(type=type_, outputs={'Out': [out]}, attrs=dict(attrs, shape=shape, dtype=int(wire)))
    return out


def _of_each_seed(name, dtype, type_, **attrs):
    def build(c):
        return [_drawn('drawn_%d' % i, [7, 5], dtype, type_, seed=seed, **attrs)
                for i, seed in enumerate(SEEDS)]
    build.__module__ = __name__
    case(build, name)


_of_each_seed('seeded_uniform', 'float32', 'uniform_random', min=-1.0, max=1.0)
_of_each_seed('seeded_uniform_wide', 'float64', 'uniform_random', min=-0.3, max=2.5)
_of_each_seed('seeded_uniform_diagonal', 'float32', 'uniform_random', min=0.0, max=1.0, diag_num=5, diag_step=5,
              diag_val=3.0)
_of_each_seed('seeded_normal', 'float32', 'gaussian_random', mean=0.5, std=2.0)
_of_each_seed('seeded_normal_wide', 'float64', 'gaussian_random', mean=0.0, std=1.0)
_of_each_seed('seeded_truncated', 'float32', 'truncated_gaussian_random', mean=0.1, std=0.7)
_of_each_seed('seeded_whole', 'int64', 'randint', low=-3, high=1000)
_of_each_seed('seeded_whole_narrow', 'int32', 'randint', low=0, high=7)


@case
def seeded_many_uniform(c):
    return _drawn('many', [4000], 'float32', 'uniform_random', min=-1.0, max=1.0, seed=3)


@case
def seeded_many_truncated(c):
    return _drawn('many', [4000], 'float32', 'truncated_gaussian_random', mean=0.0, std=1.0, seed=3)


@case
def seeded_dropout(c):
    c.gradients = False
    x = c.x([20, 6], 0.5, 1.5)
    return [L.dropout(x, p, seed=seed) for p in (0.1, 0.4) for seed in (1, 7, 123456789)]


@case
def seeded_dropout_of_the_program(c):
    c.gradients = False
    fluid.default_main_program().random_seed = 3
    return L.dropout(c.x([20, 6], 0.5, 1.5), 0.4)


@case
def seeded_batch_size_like(c):
    x = c.x([6, 2])
    return [L.uniform_random_batch_size_like(x, [-1, 3], seed=5),
            L.gaussian_random_batch_size_like(x, [-1, 3], seed=5)]
