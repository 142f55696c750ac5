"""The peers that are here, each as well as it can be run; every benchmark finds them here."""

import os
import shlex
from pathlib import Path

from turns import PYTHON, ROOT, Failed, environment, run

TODAY = str(ROOT / '.venv-peers/bin/python')
IMAGES = ('lenet', 'vgg16', 'resnet50')
WINOGRAD = ('vgg16', 'resnet50')  # have convolutions of 3 x 3, which Winograd's algorithm takes
FUSED = ('static_rnn', 'dynamic_rnn', 'gru_cells', 'words')  # PyTorch has a layer for the whole loop
IN_CPP = ('toy', 'fit_a_line', 'mlp', 'lenet')  # in peers/torch_step.cc
CPU = Path('/proc/cpuinfo').read_text()
KEEPS_MEMORY = dict(MALLOC_MMAP_MAX_='0', MALLOC_TRIM_THRESHOLD_='100000000000')
PINNED = dict(KEEPS_MEMORY, OMP_PROC_BIND='true', OMP_PLACES='cores')
# PaddlePaddle: pinned by OpenMP, its threads would all stay on one core; and an MKL of its time asks
# who made the processor, not what it can do: 5 stands for AVX2.
UNPINNED = dict(KEEPS_MEMORY)
if 'GenuineIntel' not in CPU:
    UNPINNED['MKL_DEBUG_CPU_TYPE'] = '5'
# It takes 500 MB to begin with otherwise.
NO_POOL = dict(FLAGS_use_system_allocator='1')
# Debian's PyTorch: one OpenMP pool, for it would have a second one, of OpenBLAS; and OpenBLAS does not
# know processors made after it, which it takes for very old ones.
DEBIAN = {'LD_LIBRARY_PATH': str(folder) for folder in Path('/usr/lib').glob('*/openblas-openmp')}
if 'avx512vl' in CPU:
    DEBIAN['OPENBLAS_CORETYPE'] = 'SkylakeX'
elif 'avx2' in CPU:
    DEBIAN['OPENBLAS_CORETYPE'] = 'Haswell'


class Peer:
    """One that does the same work: its command, what it wants in its environment to be fast (tuned)
    and to take no more memory than it needs (lean)."""

    def __init__(self, label, kind, command, tuned, lean):
        self.label, self.kind, self.command, self.tuned, self.lean = label, kind, command, tuned, lean
        self.in_cpp = kind == 'cpp'

    def ways(self, name, quick=False):
        """The ways to run a workload, by label: options of the command."""
        found = [()]
        if self.in_cpp and (quick or name not in IN_CPP):
            return {}
        if self.kind == 'torch':
            if name in IMAGES:
                found.append(('--channels_last',))
            if name in FUSED:
                found.append(('--fused',))
            if self.command[0] == TODAY and not quick:
                found += [(*way, '--compile') for way in found]
        return {' '.join([self.label, *(word[2:] for word in way)]): way for way in found}

    def environment(self, threads, lean=False):
        return environment(threads, **(self.lean if lean else self.tuned))


def find_peers(args):
    """Those that can do the toy, and a note on each that cannot."""
    peers, notes = [], []

    def look_for(name, kind, command, tuned, lean):
        try:
            found = run([*command, 'toy', '--reps', 1, '--secs', 0], environment(1, **lean))
        except (Failed, OSError) as problem:
            notes.append(f'no {name}: {getattr(problem, "why", problem)}')
        else:
            peers.append(Peer(f'{name} {found["version"]}', kind, command, tuned, lean))

    scripts = ROOT / 'bench/peers'
    look_for('torch', 'torch', [PYTHON, scripts / 'torch_step.py'], {**PINNED, **DEBIAN}, DEBIAN)
    look_for('torch', 'torch', [TODAY, scripts / 'torch_step.py'], PINNED, {})
    look_for('jax', 'jax', [TODAY, scripts / 'jax_step.py'], PINNED, {})
    look_for('paddle', 'paddle', [TODAY, scripts / 'paddle_step.py'], UNPINNED, NO_POOL)
    original = shlex.split(os.environ.get('TRIREME_ORIGINAL', ''))
    if original:
        command = [*original, ROOT / 'bench/steps/fluid_step.py']
        look_for('the original', 'fluid', command, UNPINNED, NO_POOL)
    else:
        notes.append('no original: set TRIREME_ORIGINAL to a command that runs a script in it')
    if args.in_cpp:
        folder = args.program.parent
        look_for('C++ torch', 'cpp', [folder / 'torch_step_debian'], {**PINNED, **DEBIAN}, DEBIAN)
        look_for('C++ torch', 'cpp', [folder / 'torch_step_today'], PINNED, {})
    return peers, notes
