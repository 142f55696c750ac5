"""What the benchmarks share: fresh pinned processes, the engine, the machine."""

import argparse
import json
import os
import platform
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PYTHON = '/usr/bin/python3'  # Debian's: what the binding is built for, and where python3-torch is


def cores():
    return sorted(os.sched_getaffinity(0))


def arguments(text, names, **defaults):
    """The options of a benchmark that compares; `defaults` are its own for some of them."""
    parser = argparse.ArgumentParser(description=text.splitlines()[0])
    parser.add_argument('names', nargs='*', default=list(names))
    parser.add_argument('--passes', type=int, default=5, help='fresh processes of each side')
    parser.add_argument('--reps', type=int, default=5, help='repeats of one process')
    parser.add_argument('--secs', type=float, default=0.5, help='seconds that a repeat lasts')
    parser.add_argument('--threads', type=int, default=len(cores()))
    parser.add_argument('--limit', type=float, default=900, help='seconds that a process may take')
    parser.add_argument('--program', type=Path, default=ROOT / 'build/release/bench/train_step')
    parser.add_argument('--python', default=PYTHON, help='for the engine')
    parser.set_defaults(**defaults)
    return parser


def parse(parser):
    args = parser.parse_args()
    sys.stdout.reconfigure(line_buffering=True)  # a row is seen when it is there
    if not args.program.exists():
        sys.exit(f'{args.program} is not built: cmake --build --preset release --target bench')
    return args


def environment(threads, **more):
    """That of a side. PYTHONPATH is left out: it may offer the engine's paddle to a peer."""
    made = dict(os.environ, OMP_NUM_THREADS=str(threads), **more)
    if 'PYTHONPATH' not in more:
        made.pop('PYTHONPATH', None)
    return made


def engine(args, threads=None, **more):
    """The engine from Python: its command and environment."""
    build = args.program.parent.parent
    where = os.pathsep.join([str(ROOT / 'python'), str(build / 'python')])
    made = environment(threads or args.threads, PYTHONPATH=where, **more)
    return [args.python, ROOT / 'bench/steps/fluid_step.py'], made


class Failed(SystemExit):
    """A process gave no record. Ends the benchmark with all it said; who goes on says `why`."""

    def __init__(self, process, said):
        super().__init__(f'{" ".join(process.args)} failed:\n{said}')
        lines = [line.strip() for line in said.splitlines() if line.strip()]
        self.why = next((line for line in reversed(lines) if 'Error' in line), lines[-1])[:160]


def start(command, environment, on):
    """A process that stays on some cores."""
    return subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, env=environment,
                            preexec_fn=lambda: os.sched_setaffinity(0, on))


def last_line(process, timeout):
    """What a process prints last, as JSON."""
    try:
        out, problems = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise Failed(process, f'took more than {timeout:.0f} s') from None
    if process.returncode != 0:
        raise Failed(process, f'{problems.rstrip()}\nstatus {process.returncode}')
    return json.loads(out.splitlines()[-1])


def run(command, environment, timeout=600, count=None):
    """The last line of a process that has as many cores as it has threads, or so many."""
    count = count or int(environment['OMP_NUM_THREADS'])
    return last_line(start(command, environment, cores()[:count]), timeout)


def turns(sides, count, before=lambda: None, behind=None):
    """The records of every side, taken in turns, and why some have none. A side is a function; of
    the engine's, whose names begin with `trireme`, a failure ends the benchmark. A peer's side whose
    best pass is so many times the best of all peers' (`behind`) takes no further part: it cannot be
    the one that the engine is compared with."""
    found, failed, out = {side: [] for side in sides}, {}, set()
    for _ in range(count):
        before()
        for side, once in sides.items():
            if side in failed or side in out:
                continue
            try:
                found[side].append(once())
            except Failed as problem:
                if side.startswith('trireme'):
                    raise
                failed[side] = problem.why
                del found[side]
        theirs = {side: best(records) for side, records in found.items() if not side.startswith('trireme')}
        if behind and theirs:
            out = {side for side, ms in theirs.items() if ms > behind * min(theirs.values())}
    return found, failed


def best(records):
    return min(one['ms'] for one in records)


def passes(records):
    return ' '.join(f'{one["ms"]:.4g}' for one in records)


def cores_apart(args):
    """Nanoseconds from the first core to the second and back, as a text."""
    if args.threads < 2:
        return '-'
    found = subprocess.run([str(args.program.parent / 'round_trip')], capture_output=True, text=True)
    return found.stdout.strip() if found.returncode == 0 else '-'


def cpu_name():
    for line in Path('/proc/cpuinfo').read_text().splitlines():
        if line.startswith('model name'):
            return line.split(':', 1)[1].strip()
    return platform.machine()


def print_machine(args, peers, notes):
    """Processor, threads, load and versions."""
    ours = run([args.program, 'toy', '--reps', '1', '--secs', '0.01'], environment(args.threads))
    load = os.getloadavg()[0]
    print(f'{cpu_name()}, {args.threads} threads, load {load:.1f}; Python {platform.python_version()}, '
          f'oneDNN {ours["onednn"]}')
    print(f'peers: {", ".join(peer.label for peer in peers) or "none"}')
    for note in notes:
        print(note)
    if load > 0.5:
        print('other work is running: compare CPU times, not the clock')
