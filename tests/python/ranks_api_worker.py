"""A rank that uses what paddle.distributed offers to static programs; prints what came of it."""
import json

import numpy as np
import paddle.distributed as dist
import paddle.fluid as fluid
from paddle.fluid.incubate.fleet.base import role_maker
from paddle.fluid.incubate.fleet.collective import fleet
from paddle.fluid.layers import collective


def main():
    env = dist.init_parallel_env()
    rank, ranks = dist.get_rank(), dist.get_world_size()
    assert (rank, ranks) == (env.rank, env.world_size) and dist.is_initialized()
    program = fluid.Program()
    with fluid.program_guard(program, fluid.Program()):
        given = fluid.data('given', [2], 'float32')
        results = {}
        for name, op in (('sum', dist.ReduceOp.SUM), ('max', dist.ReduceOp.MAX), ('min', dist.ReduceOp.MIN),
                         ('prod', dist.ReduceOp.PROD)):
            results[name] = fluid.layers.assign(given)
            dist.all_reduce(results[name], op)
        results['inner_max'] = collective._c_allreduce(given, reduce_type='max')
        results['inner_rows'] = collective._c_sync_comm_stream(collective._c_allgather(given, ranks), 0)
        results['inner_root'] = collective._c_broadcast(fluid.layers.assign(given), 2)
        results['root'] = fluid.layers.assign(given)
        dist.broadcast(results['root'], 1)
        gathered = []
        dist.all_gather(gathered, given)
        block = program.global_block()
        block.append_op(type='barrier', inputs={'X': given}, outputs={'Out': given}, attrs={'ring_id': 0})
    exe = fluid.Executor(fluid.CPUPlace())
    fed = {'given': np.array([rank + 1, -rank], 'float32')}
    found = exe.run(program, fed, [*results.values(), *gathered])
    said = {name: value.tolist() for name, value in zip([*results, *range(ranks)], found)}
    dist.barrier()
    fleet.init(role_maker.PaddleCloudRoleMaker(is_collective=True))
    total = np.zeros([1], 'int64')
    fleet.all_reduce_worker(np.array([10 + rank]), total)
    fleet.barrier_worker()
    said['worker_sum'] = total.tolist()
    print(json.dumps(said), flush=True)


main()
