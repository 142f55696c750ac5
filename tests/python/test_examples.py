"""Runs the examples as a user would and holds each to the quality that it states, then runs them on a
device that is not the host: they say, number for number, what they said on the CPU.

A program's first lines have, for every way to run it, a line such as

    conv: accuracy at least 0.965 (0.975 to 0.986)

with what it reached over ten seeds, and a bound that lies beyond the worst of them by no more than the
best is away from the worst: another machine rounds otherwise, which is like another seed. A program that
learns nothing, or half of it, is far outside.
"""
import ast
import os
import re
import subprocess
import sys

import pytest

import _trireme

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
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
HOSTGPU = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(_trireme.__file__))), 'tests', 'libhostgpu.so')
FLUID = os.path.join(ROOT, 'examples', 'fluid')
DATA = ['datasets.py', 'made_sets.py']
PROGRAMS = ['fit_a_line.py', 'gan.py', 'image_classification.py', 'label_semantic_roles.py',
            'machine_translation.py', 'recognize_digits.py', 'recommender_system.py',
            'rnn_encoder_decoder.py', 'understand_sentiment.py', 'wgan_gp.py', 'word2vec.py']
STATIC = os.path.join(ROOT, 'examples', 'static')
STATIC_DATA = ['common.py']
STATIC_PROGRAMS = ['conv_net.py', 'digits.py', 'lstm_classifier.py', 'mixed_precision.py', 'save_and_load.py',
                   'transformer.py']
DETECTION = os.path.join(ROOT, 'examples', 'detection')
DETECTION_DATA = ['scenes.py']
DETECTION_PROGRAMS = ['faster_rcnn.py', 'mask_rcnn.py', 'retinanet.py', 'ssd.py', 'text_boxes.py', 'yolov3.py']
FOLDERS = [(FLUID, PROGRAMS, DATA), (STATIC, STATIC_PROGRAMS, STATIC_DATA),
           (DETECTION, DETECTION_PROGRAMS, DETECTION_DATA)]
QUALITY = re.compile(r'^    (?:(\w+): )?(\w+) at (least|most) ([\d.]+) \(([\d.]+) to ([\d.]+)\)$', re.M)


def stated(program, folder):
    """(way to run it or '', measure, least or most, bound, lowest and highest seen) for every line."""
    with open(os.path.join(folder, program)) as file:
        return QUALITY.findall(ast.get_docstring(ast.parse(file.read())))


CASES = [(os.path.join(folder, program),) + line
         for folder, programs, _ in FOLDERS for program in programs for line in stated(program, folder)]


equal = []  # the runs that said the same on the CPU and on the device


def run(*command, **environment):
    done = subprocess.run([sys.executable] + list(command), capture_output=True, text=True, timeout=300,
                          env={**os.environ, **environment})
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_demo_says_what_each_device_did():
    output = run(os.path.join(ROOT, 'examples', 'demo.py'))
    for device in (0, 1):
        assert f'device {device}: 14080 samples, mean loss' in output
    assert 'Accuracy on 360 digits it has not seen' in output


def test_demo_takes_the_gpus_that_are_there(tmp_path):
    if not os.path.exists(HOSTGPU):
        pytest.skip('the C++ tests are not built')
    script = f'import sys; sys.path.insert(0, {os.path.join(ROOT, "examples")!r}); import demo; demo.EPOCHS = 1; ' \
        f'demo.OUTPUT = {str(tmp_path)!r}; demo.main()'
    done = subprocess.run([sys.executable, '-c', script], capture_output=True, text=True, timeout=300,
                          env={**os.environ, 'PYTHONPATH': os.pathsep.join(sys.path), 'FLAGS_gpu_library': HOSTGPU,
                               'HOSTGPU_COUNT': '2'})
    assert 'on 2 GPU devices' in done.stdout and 'device 1: 704 samples' in done.stdout, done.stdout + done.stderr


def test_every_program_is_here_and_states_its_quality():
    for folder, programs, data in FOLDERS:
        assert sorted(name for name in os.listdir(folder) if name.endswith('.py')) == sorted(programs + data)
        assert {os.path.basename(path) for path, *_ in CASES if os.path.dirname(path) == folder} == set(programs)
    with open(os.path.join(ROOT, 'examples', 'README.md')) as file:
        rows = {row.split('`')[1]: row for row in file if row.startswith('| `')}
    for path, way, _, side, *numbers in CASES:
        program = os.path.basename(path)
        bound, low, high = map(float, numbers)
        beyond = low - bound if side == 'least' else bound - high
        assert 0 < beyond <= high - low + 1e-9, f'{program} {way}: the bound is not near what was seen'
        assert '%s to %s' % tuple(numbers[1:]) in rows[program], f'README has other numbers for {program}'


@pytest.mark.parametrize('path, way, measure, side, bound', [case[:5] for case in CASES],
                         ids=[f'{os.path.basename(path)} {way}'.strip() for path, way, *_ in CASES])
def test_example_reaches_what_it_states(path, way, measure, side, bound, tmp_path):
    picture = ['--picture', str(tmp_path / 'digits.png')] if path.endswith('gan.py') else []
    script = [path, *([way] if way else []), *picture]
    output = run(*script)
    assert 'the loaded model answers as the trained one' in output
    reached = re.fullmatch(r'held-out (\w+) ([\d.]+)', output.splitlines()[-1])
    assert reached and reached[1] == measure, output
    value, bound = float(reached[2]), float(bound)
    assert value >= bound if side == 'least' else value <= bound, output
    for drawn in picture[1:]:
        with open(drawn, 'rb') as file:
            assert file.read(4) == b'\x89PNG'
    if os.path.exists(HOSTGPU):
        assert run('-c', ON_GPU, *script, FLAGS_gpu_library=HOSTGPU) == output
        equal.append(script)
