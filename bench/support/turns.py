"""What the benchmark programs share: fresh pinned processes, the peer's interpreter, the machine."""

import json
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


def tuned_environment(threads):
    """One OpenMP pool, pinned threads, a malloc that keeps what is freed."""
    made = dict(os.environ, OMP_NUM_THREADS=str(threads), OMP_PROC_BIND='true', OMP_PLACES='cores',
                MALLOC_MMAP_MAX_='0', MALLOC_TRIM_THRESHOLD_='100000000000')
    for folder in Path('/usr/lib').glob('*/openblas-openmp'):
        made['LD_LIBRARY_PATH'] = str(folder)
    return made


def find_peer(asked=None):
    """The interpreter that can import torch, Debian's unless told, and torch's version; or None."""
    python = str(asked or '/usr/bin/python3')
    if not shutil.which(python):
        return None
    found = subprocess.run([python, '-c', 'import torch; print(torch.__version__)'],
                           capture_output=True, text=True)
    return (python, found.stdout.strip()) if found.returncode == 0 else None


def find_other_peer():
    """Another PyTorch, in an environment of its own: shown beside the peer, compared with nothing."""
    return find_peer(ROOT / '.venv-peers/bin/python')


def start(command, environment=None, cores=None):
    """A process that stays on some cores; all that this one may use unless told."""
    def pin():
        os.sched_setaffinity(0, cores or os.sched_getaffinity(0))

    return subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, env=environment, preexec_fn=pin)


def last_line(process, timeout):
    """What a process prints last, as JSON; without it, the benchmark ends with what went wrong."""
    try:
        out, problems = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        sys.exit(f'{" ".join(process.args)} took more than {timeout:.0f} s')
    if process.returncode != 0:
        sys.exit(f'{" ".join(process.args)} failed:\n{problems}')
    return json.loads(out.splitlines()[-1])


def run(command, environment=None, threads=None, timeout=600):
    """The last line of a process that has as many cores as it has threads."""
    cores = sorted(os.sched_getaffinity(0))[:threads]
    return last_line(start(command, environment, cores), timeout)


def cpu_name():
    for line in Path('/proc/cpuinfo').read_text().splitlines():
        if line.startswith('model name'):
            return line.split(':', 1)[1].strip()
    return platform.machine()


def print_machine(program, threads, peer):
    """Processor, threads, load and versions; `program` is train_step."""
    ours = run([program, 'toy', '--reps', '1', '--secs', '0.01'])
    load = os.getloadavg()[0]
    print(f'{cpu_name()}, {threads} threads, load {load:.1f}; oneDNN {ours["onednn"]}')
    print(f'peer: PyTorch {peer[1]}' if peer else 'peer: none, no PyTorch found (--peer-python)')
    if load > 0.5:
        print('other work is running: compare CPU times, not the clock')


def passes(side):
    return ' '.join(f'{one["ms"]:.4g}' for one in side)
