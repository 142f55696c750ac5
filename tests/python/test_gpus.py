"""What scripts ask about GPUs, and which they are given, on a device that needs no card (tests/support/hostgpu)."""
import os
import subprocess
import sys

import pytest

import _trireme
import paddle
import paddle.fluid as fluid

HOSTGPU = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(_trireme.__file__))), 'tests', 'libhostgpu.so')

# Two rows for each of four places; the numbers do not depend on where they are computed.
NET = """
import numpy as np
import paddle
import paddle.fluid as fluid
main, startup = fluid.Program(), fluid.Program()
main.random_seed = startup.random_seed = 3
with fluid.program_guard(main, startup):
    x = fluid.data('x', [None, 4])
    loss = fluid.layers.mean(fluid.layers.fc(x, 3, act='tanh'))
    fluid.optimizer.SGD(0.1).minimize(loss)
feed = {'x': np.arange(32, dtype='float32').reshape(8, 4) / 32}
"""


def said(script, **environment):
    if not os.path.exists(HOSTGPU):
        pytest.skip('the C++ tests are not built')
    clean = {name: text for name, text in os.environ.items() if name not in ('FLAGS_selected_gpus', 'CUDA_VISIBLE_DEVICES')}
    done = subprocess.run([sys.executable, '-c', NET + script], capture_output=True, text=True, timeout=120,
                          env={**clean, 'PYTHONPATH': os.pathsep.join(sys.path), 'CPU_NUM': '4', **environment})
    assert done.returncode == 0, done.stderr
    return done.stdout


def on_hostgpu(script, **environment):
    return said(script, FLAGS_gpu_library=HOSTGPU, **environment)


ASKED = """
print(fluid.is_compiled_with_cuda(), paddle.is_compiled_with_cuda(), fluid.core.get_cuda_device_count())
print(fluid.cuda_places(), fluid.cuda_places([1]), len(fluid.cuda_pinned_places()), paddle.get_device())
print(fluid.Executor().place, fluid.Executor('gpu:2').place)
print(paddle.set_device('gpu:1'), paddle.get_device(), fluid.Executor().place)
print(paddle.set_device('cpu'), paddle.get_device(), fluid.Executor().place)
"""


def test_what_a_script_asks():
    lines = on_hostgpu(ASKED, FLAGS_selected_gpus='0,2').splitlines()
    assert lines == ['True True 4', '[CUDAPlace(0), CUDAPlace(2)] [CUDAPlace(1)] 4 gpu:0',
                     'CUDAPlace(0) CUDAPlace(2)', 'CUDAPlace(1) gpu:1 CUDAPlace(1)', 'CPUPlace cpu CPUPlace']
    assert on_hostgpu('print(len(fluid.cuda_places()))') == '4\n'


TRAINED = """
compiled = fluid.CompiledProgram(main).with_data_parallel(loss.name)
for program, place in ((main, {place}), (compiled, {place})):
    with fluid.scope_guard(fluid.Scope()):
        exe = fluid.Executor(place)
        exe.run(startup)
        for _ in range(3):
            print(exe.run(program, feed=feed, fetch_list=[loss])[0].tolist())
with fluid.scope_guard(fluid.Scope()):
    exe.run(startup)
    parallel = fluid.ParallelExecutor(use_cuda={cuda}, loss_name=loss.name, main_program=main)
    print(parallel.device_count, [np.mean(parallel.run([loss], feed=feed)[0]).tolist() for _ in range(3)])
"""


@pytest.mark.parametrize('chosen', [{}, {'FLAGS_selected_gpus': '1,3'}, {'CUDA_VISIBLE_DEVICES': '4,5'}],
                         ids=['all', 'selected', 'visible'])
def test_data_parallel_takes_the_gpus_that_the_environment_chooses(chosen):
    places = '2' if chosen else '4'
    on_cpu = said(TRAINED.format(place='fluid.CPUPlace()', cuda=False), CPU_NUM=places)
    assert on_hostgpu(TRAINED.format(place='fluid.CUDAPlace(1)', cuda=True), **chosen) == on_cpu
    assert f'\n{places} [' in on_cpu


PREDICTED = """
from paddle.fluid import core
exe = fluid.Executor(fluid.CPUPlace())
exe.run(startup)
fluid.io.save_inference_model('model', ['x'], [loss], exe, main)
config = core.AnalysisConfig('model')
config.disable_gpu()
if {gpu}:
    config.enable_use_gpu(100, 2)
predictor = core.create_paddle_predictor(config)
print(predictor.run([core.PaddleTensor(feed['x'])])[0].as_ndarray().tolist())
"""


def test_a_predictor_computes_on_the_gpu_of_its_config(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert on_hostgpu(PREDICTED.format(gpu=True)) == said(PREDICTED.format(gpu=False))


def test_a_wrong_choice_says_what_is_there():
    wrong = """
for call in (lambda: fluid.cuda_places(), lambda: paddle.set_device('gpu:4')):
    try:
        call()
    except Exception as error:
        print(error)
"""
    lines = on_hostgpu(wrong, FLAGS_selected_gpus='0,7')
    assert 'FLAGS_selected_gpus chooses gpu:7, but 4 GPUs are there' in lines
    assert "'gpu:4' cannot be chosen: 4 GPUs can be used here" in lines


@pytest.mark.skipif(fluid.is_compiled_with_cuda(), reason='this machine has a GPU')
def test_without_a_gpu_there_is_none():
    assert fluid.core.get_cuda_device_count() == 0 and paddle.get_device() == 'cpu'
    assert fluid.Executor().place.is_cpu_place()
    with pytest.raises(AssertionError, match='use cpu_places'):
        fluid.cuda_places()
    with pytest.raises(ValueError, match="'gpu' cannot be chosen: 0 GPUs"):
        paddle.set_device('gpu')
