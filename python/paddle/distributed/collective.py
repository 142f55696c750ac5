"""Ranks meet, and exchange tensors by ops of static programs."""
import _trireme as _C

from . import environment

_RING = 0


class ReduceOp:
    SUM, MAX, MIN, PROD = range(4)


_REDUCTIONS = {ReduceOp.SUM: 'c_allreduce_sum', ReduceOp.MAX: 'c_allreduce_max',
               ReduceOp.MIN: 'c_allreduce_min', ReduceOp.PROD: 'c_allreduce_prod'}


def has_met():
    return _C.global_scope().find_var(f'@RING@{_RING}') is not None


def _executor():
    from paddle import fluid
    return fluid.Executor(fluid.CPUPlace())


def init_parallel_env():
    """Meets the other ranks, at the endpoints that the launcher gave. Returns ParallelEnv()."""
    from paddle import fluid
    env = environment.ParallelEnv()
    if env.world_size == 1 or has_met():
        return env
    if len(env.trainer_endpoints) != env.world_size:
        raise ValueError(f'PADDLE_TRAINERS_NUM is {env.world_size}, but PADDLE_TRAINER_ENDPOINTS names '
                         f'{len(env.trainer_endpoints)}')
    program = fluid.Program()
    block = program.global_block()
    ring = block.create_var(name='@MEETING@', type=fluid.core.VarDesc.VarType.RAW, persistable=True)
    own = env.trainer_endpoints[env.rank]
    block.append_op(type='c_gen_nccl_id', outputs={'Out': ring},
                    attrs={'rank': env.rank, 'endpoint': own,
                           'other_endpoints': [each for each in env.trainer_endpoints if each != own]})
    block.append_op(type='c_comm_init', inputs={'X': ring},
                    attrs={'nranks': env.world_size, 'rank': env.rank, 'ring_id': _RING})
    _executor().run(program)
    return env


def _check_group(group, sync_op=True):
    if group is not None:
        raise NotImplementedError('group=...: there is one group, of all ranks')


def _append(op_type, variable, out=None, **attrs):
    variable.block.append_op(type=op_type, inputs={'X': variable}, outputs={'Out': out or variable},
                             attrs={'ring_id': _RING, **attrs})


def _variable(tensor, what):
    from paddle.fluid.framework import Variable
    if not isinstance(tensor, Variable):
        raise TypeError(f'{what} takes a Variable of a program, got {type(tensor).__name__}')
    return tensor


def all_reduce(tensor, op=ReduceOp.SUM, group=None, sync_op=True, use_calc_stream=True):
    """From here on in its program, the variable holds what all ranks' values make together."""
    _check_group(group)
    if op not in _REDUCTIONS:
        raise ValueError(f'op is {op!r}: it must be ReduceOp.SUM, MAX, MIN or PROD')
    _append(_REDUCTIONS[op], _variable(tensor, 'all_reduce'))


def broadcast(tensor, src, group=None, sync_op=True, use_calc_stream=True):
    """From here on in its program, the variable holds the value of rank `src`."""
    _check_group(group)
    _append('c_broadcast', _variable(tensor, 'broadcast'), root=src)


def all_gather(tensor_list, tensor, group=None, sync_op=True, use_calc_stream=True):
    """Appends to tensor_list a variable for the value of every rank."""
    from paddle import fluid
    _check_group(group)
    variable, count = _variable(tensor, 'all_gather'), environment.ParallelEnv().world_size
    shape = [variable.shape[0] * count if variable.shape[0] > 0 else -1] + list(variable.shape[1:])
    whole = variable.block.create_var(name=fluid.unique_name.generate('all_gather'), shape=shape,
                                      dtype=variable.dtype)
    _append('c_allgather', variable, whole, nranks=count)
    tensor_list.extend(fluid.layers.split(whole, count, dim=0))


def barrier(group=None):
    """Waits, now, until all ranks have come here."""
    from paddle import fluid
    _check_group(group)
    if environment.ParallelEnv().world_size == 1:
        return
    if not has_met():
        raise RuntimeError('barrier: the ranks have not met: call paddle.distributed.init_parallel_env first')
    program = fluid.Program()
    block = program.global_block()
    one = block.create_var(name='@BARRIER@', shape=[1], dtype='int32')
    block.append_op(type='fill_constant', outputs={'Out': one},
                    attrs={'shape': [1], 'dtype': one.dtype, 'value': 1.0})
    block.append_op(type='c_allreduce_sum', inputs={'X': one}, outputs={'Out': one}, attrs={'ring_id': _RING})
    _executor().run(program)
