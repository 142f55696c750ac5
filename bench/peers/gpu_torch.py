"""One training step of PyTorch on a GPU, on the workloads of bench/workloads.cc; one JSON line each.

gpu_torch.py NAME[:BATCHES],... [--precision fp32|tf32|bf16] [--modes MODE,...] [--reps N] [--secs S]
             [--dense] [--warm]

Modes: eager; graph, a captured CUDA graph of that step; compile, torch.compile of the loss with its
gradient; compile_graph, both. Inputs lie on the card, steps follow one another without a wait, and
the median of --reps repeats of --secs seconds is printed for each mode; a mode that fails says why
on stderr and is left out. bf16 is torch.autocast; resnet50 has its channels last. --dense: tables have dense gradients, which a
graph can capture. --warm: a few steps only, so that a later run finds its code compiled.
"""

import argparse
import json
import sys
import time
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent))
import torch_step  # noqa: E402

MODES = ('eager', 'graph', 'compile', 'compile_graph')


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument('names')
    parser.add_argument('--precision', default='tf32', choices=('fp32', 'tf32', 'bf16'))
    parser.add_argument('--modes', default=','.join(MODES))
    parser.add_argument('--reps', type=int, default=5)
    parser.add_argument('--secs', type=float, default=0.3)
    for option in ('--dense', '--warm'):
        parser.add_argument(option, action='store_true')
    return parser.parse_args()


def fastest(optimizer):
    """The same update in the form that PyTorch runs as one kernel, where it has one."""
    parameters = [p for group in optimizer.param_groups for p in group['params']]
    options = dict(optimizer.defaults)
    if isinstance(optimizer, torch.optim.Adam):
        return torch.optim.Adam(parameters, options['lr'], fused=True, capturable=True)
    if isinstance(optimizer, torch.optim.SGD):
        return torch.optim.SGD(parameters, options['lr'], momentum=options['momentum'], fused=True)
    return optimizer


def make_step(name, batches, args, compiled):
    torch.manual_seed(0)
    model, factory, x, loss_of = torch_step.make(name, batches, False)
    sparse = [m for m in model.modules() if isinstance(m, torch.nn.Embedding) and m.sparse]
    if args.dense:
        for table in sparse:
            table.sparse = False
        sparse = []
    if name == 'resnet50':
        model = model.to(memory_format=torch.channels_last)
        x = x.contiguous(memory_format=torch.channels_last)
    optimizer = factory(model.parameters())
    if not sparse:
        optimizer = fastest(optimizer)

    def forward(x):
        with torch.autocast('cuda', torch.bfloat16, enabled=args.precision == 'bf16'):
            out = model(x)
        return loss_of(out.float())

    loss = torch.compile(forward) if compiled else forward

    def step():
        optimizer.zero_grad(set_to_none=True)
        value = loss(x)
        value.backward()
        optimizer.step()
        return value

    return step


def captured(step):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(4):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def seconds(step, args):
    def run(count):
        begin = time.perf_counter()
        for _ in range(count):
            step()
        torch.cuda.synchronize()
        return time.perf_counter() - begin

    run(3)
    if args.warm:
        return 0.0
    once = run(5) / 5
    count = max(1, int(args.secs / once))
    return sorted(run(count) / count for _ in range(args.reps))[args.reps // 2]


def measured(name, batches, args):
    """Milliseconds by mode. A graph is captured of the very step that was timed before it."""
    found = {}
    for compiled in (False, True):
        modes = [mode for mode in args.modes.split(',') if mode.startswith('compile') == compiled]
        step = None
        for mode in modes:
            try:
                step = step or make_step(name, batches, args, compiled)
                run = captured(step) if mode.endswith('graph') else step
                found[mode] = round(seconds(run, args) * 1e3, 5)
            except Exception as e:  # what PyTorch cannot do it says in many ways
                print(f'{name} {mode}: {type(e).__name__}: {str(e)[:300]}', file=sys.stderr)
        torch.compiler.reset()
    return found


def main():
    args = arguments()
    torch.set_default_device('cuda')
    tf32 = args.precision != 'fp32'
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32
    torch.backends.cudnn.benchmark = True
    for workload in args.names.split(','):
        name, _, batches = workload.partition(':')
        found = measured(name, int(batches or 1), args)
        print(json.dumps({'name': name, 'precision': args.precision, 'dense': args.dense,
                          'ms': found, 'torch': torch.__version__}), flush=True)


if __name__ == '__main__':
    main()
