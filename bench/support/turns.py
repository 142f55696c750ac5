"""What the benchmarks share: fresh pinned processes, the peers' interpreters, the machine."""

import json
import os
import platform
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


def tuned_environment(threads):
    """One OpenMP pool, pinned threads, a malloc that keeps what is freed."""
    made = dict(os.environ, OMP_NUM_THREADS=str(threads), OMP_PROC_BIND='true', OMP_PLACES='cores',
                MALLOC_MMAP_MAX_='0', MALLOC_TRIM_THRESHOLD_='100000000000')
    for folder in Path('/usr/lib').glob('*/openblas-openmp'):
        made['LD_LIBRARY_PATH'] = str(folder)
    return made


def version_of(module, *python):
    """What a module calls its version in an interpreter (with options); None where it is not."""
    if not shutil.which(python[0]):
        return None
    found = subprocess.run([*python, '-c', f'import {module}; print({module}.__version__)'],
                           capture_output=True, text=True)
    return found.stdout.splitlines()[-1] if found.returncode == 0 else None


def find_peer(asked=None):
    """The interpreter that can import torch, Debian's unless told, and torch's version; or None."""
    python = str(asked or '/usr/bin/python3')
    version = version_of('torch', python)
    return (python, version) if version else None


def find_others():
    """What .venv-peers has to show beside the peer: (module, version, its interpreter) of each."""
    # Isolated, for PYTHONPATH and the working folder may offer the engine's own paddle.
    python = (str(ROOT / '.venv-peers/bin/python'), '-I')
    found = [(module, version_of(module, *python)) for module in ('torch', 'jax', 'paddle')]
    return [(module, version, python) for module, version in found if version]


def start(command, environment=None, cores=None):
    """A process that stays on some cores; all that this one may use unless told."""
    def pin():
        os.sched_setaffinity(0, cores or os.sched_getaffinity(0))

    return subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, env=environment, preexec_fn=pin)


class Failed(SystemExit):
    """A process gave no record. Ends the benchmark with all it said; who goes on says `why`."""

    def __init__(self, process, said):
        super().__init__(f'{" ".join(process.args)} failed:\n{said}')
        self.why = said.splitlines()[-1].strip()


def last_line(process, timeout):
    """What a process prints last, as JSON."""
    try:
        out, problems = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise Failed(process, f'took more than {timeout:.0f} s') from None
    if process.returncode != 0:
        raise Failed(process, f'{problems.rstrip()} (status {process.returncode})')
    return json.loads(out.splitlines()[-1])


def run(command, environment=None, threads=None, timeout=600):
    """The last line of a process that has as many cores as it has threads."""
    cores = sorted(os.sched_getaffinity(0))[:threads]
    return last_line(start(command, environment, cores), timeout)


def cores_apart(program, threads):
    """Nanoseconds from the first core to the second and back, as a text; `program` is train_step."""
    if threads < 2:
        return '-'
    found = subprocess.run([str(Path(program).parent / 'round_trip')], capture_output=True, text=True,
                           timeout=60)
    return found.stdout.strip() if found.returncode == 0 else '-'


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
