"""One training step of PyTorch's DistributedDataParallel over Gloo, on the workloads of
torch_step.py. Each rank is a process of its own; rank 0 prints one JSON line.

torch_ddp.py NAME --rank R --ranks N --port P [--reps N] [--secs S] [--channels_last]
"""

import datetime

import torch
import torch.distributed as dist
from torch_step import arguments, clock, prepare


def main():
    parser = arguments()
    parser.add_argument('--rank', type=int, required=True)
    parser.add_argument('--ranks', type=int, default=2)
    parser.add_argument('--port', type=int, required=True)
    args = parser.parse_args()
    dist.init_process_group('gloo', init_method=f'tcp://127.0.0.1:{args.port}', rank=args.rank,
                            world_size=args.ranks, timeout=datetime.timedelta(seconds=60))
    model, step_of = prepare(args)
    step = step_of(torch.nn.parallel.DistributedDataParallel(model))

    def slowest(seconds):
        found = torch.tensor([seconds])
        dist.all_reduce(found, op=dist.ReduceOp.MAX)
        return float(found)

    for _ in range(3):
        step()
    found = clock.measure(step, args, agree=slowest)
    spent = torch.tensor([found['cpu_ms']])
    dist.all_reduce(spent)
    if args.rank == 0:
        clock.report(dict(found, cpu_ms=float(spent)), torch.__version__)
    dist.barrier()


main()
