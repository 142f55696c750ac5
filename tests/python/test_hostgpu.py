"""The examples on a device that is not the host: they say, number for number, what they say on the CPU."""
import os
import subprocess
import sys

import pytest

import _trireme
from test_examples import CASES

BUILD = os.path.dirname(os.path.dirname(os.path.abspath(_trireme.__file__)))
HOSTGPU = os.path.join(BUILD, 'tests', 'libhostgpu.so')

# A script that asks for CPUPlace gets the place of the first GPU, which the library serves.
ON_GPU = """
import os, runpy, sys
import paddle
import paddle.fluid as fluid
paddle.CPUPlace = fluid.CPUPlace = lambda: fluid.CUDAPlace(0)
sys.argv = sys.argv[1:]
sys.path.insert(0, os.path.dirname(sys.argv[0]))
runpy.run_path(sys.argv[0], run_name='__main__')
"""


# Their samplers of boxes draw anew in every run, as the original's do: no two runs say the same.
DRAWN_ANEW = {'faster_rcnn.py', 'mask_rcnn.py'}
RUNS = [case[:2] for case in CASES if os.path.basename(case[0]) not in DRAWN_ANEW]

equal = []  # the runs that said the same on both


def said(command, folder, **environment):
    folder.mkdir()
    done = subprocess.run([sys.executable, *command], cwd=folder, capture_output=True, text=True, timeout=300,
                          env={**os.environ, 'PYTHONPATH': os.pathsep.join(sys.path), **environment})
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize('program, way', RUNS,
                         ids=[f'{os.path.basename(program)} {way}'.strip() for program, way in RUNS])
def test_an_example_says_what_it_says_on_the_cpu(program, way, tmp_path):
    if not os.path.exists(HOSTGPU):
        pytest.skip('the C++ tests are not built')
    script = [program, *([way] if way else []), '--seed', '3']
    on_gpu = said(['-c', ON_GPU, *script], tmp_path / 'gpu', FLAGS_gpu_library=HOSTGPU)
    assert on_gpu == said(script, tmp_path / 'cpu')
    equal.append((program, way))
