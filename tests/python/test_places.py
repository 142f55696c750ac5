"""Tensors on other places than the CPU, with a library of fake devices in place of a GPU's."""
import os
import subprocess
import sys

import numpy as np
import pytest

import _trireme
import paddle.fluid as fluid

BUILD = os.path.dirname(os.path.dirname(os.path.abspath(_trireme.__file__)))
FAKE_DEVICES = os.path.join(BUILD, 'tests', 'libfake_devices.so')

# A library stays open as long as the process lives, so each script is one.
BEGIN = """
import numpy as np
import paddle.fluid as fluid
array = np.array([[1, 2], [3, 4]], 'float32')
tensor = fluid.LoDTensor()
tensor.set(array, fluid.CUDAPlace(1))
"""


def run_with_fake_devices(source):
    if not os.path.exists(FAKE_DEVICES):
        pytest.skip('the C++ tests are not built')
    environment = {**os.environ, 'PYTHONPATH': os.pathsep.join(sys.path), 'FLAGS_gpu_library': FAKE_DEVICES}
    done = subprocess.run([sys.executable, '-c', BEGIN + source], env=environment, capture_output=True, text=True,
                          timeout=120)
    assert done.returncode == 0, done.stderr


def test_without_a_library_a_gpu_tensor_names_it():
    done = subprocess.run([sys.executable, '-c', BEGIN], capture_output=True, text=True, timeout=120,
                          env={**os.environ, 'PYTHONPATH': os.pathsep.join(sys.path),
                               'FLAGS_gpu_library': '/nowhere/gpu.so'})
    assert done.returncode == 1
    assert 'GPU library /nowhere/gpu.so does not exist, but FLAGS_gpu_library names it' in done.stderr


def test_a_place_is_a_place():
    with pytest.raises(TypeError, match='place is a str, not a place'):
        fluid.LoDTensor().set(np.ones(2, 'float32'), 'gpu')


def test_set_puts_it_there_and_numpy_brings_it_back():
    run_with_fake_devices("""
assert tensor._place().is_gpu_place() and tensor._place().gpu_device_id() == 1
assert (np.array(tensor) == array).all() and (np.asarray(tensor) == array).all()
assert 'Place(gpu:1)' in str(tensor) and '[3. 4.]' in str(tensor)
assert (np.array(tensor[0]) == [1, 2]).all()

tensor.set(array * 2)  # where it is
assert tensor._place().is_gpu_place() and (np.array(tensor) == array * 2).all()
tensor._set_float_element(3, 9)
assert tensor._get_float_element(3) == 9
tensor.set(array, fluid.CPUPlace())
assert tensor._place().is_cpu_place() and (np.array(tensor) == array).all()

there = tensor._copy(fluid.CUDAPlace(0))
assert there._place().gpu_device_id() == 0 and (np.array(there) == array).all()
assert there._copy()._place().is_gpu_place() and tensor._place().is_cpu_place()
""")


def test_memory_that_numpy_cannot_share_is_said():
    run_with_fake_devices("""
for call in (lambda: tensor.set(array, fluid.CUDAPlace(0), zero_copy=True),
             lambda: tensor.__array__(None, False)):
    try:
        call()
        assert False, 'no error'
    except ValueError as e:
        assert 'leave out' in str(e), e
try:
    tensor.set(array, fluid.CUDAPlace(2))
    assert False, 'no error'
except RuntimeError as e:
    assert 'gpu:2 cannot be used: 2 GPUs are visible' in str(e), e
""")


def test_selected_rows_show_their_numbers():
    run_with_fake_devices("""
rows = fluid.core.SelectedRows([3, 1], 5)
rows.get_tensor().set(array, fluid.CUDAPlace(0))
assert rows.rows() == [3, 1] and 'rows [3, 1]' in str(rows)
""")


def test_a_variable_is_saved_and_loaded_where_it_is():
    run_with_fake_devices("""
import tempfile
exe = fluid.Executor(fluid.CPUPlace())
fluid.layers.create_parameter([2, 2], 'float32', name='w')
exe.run(fluid.default_startup_program())
w = fluid.global_scope().find_var('w').get_tensor()
w.set(array, fluid.CUDAPlace(0))
with tempfile.TemporaryDirectory() as place:
    fluid.io.save_params(exe, place)
    w.set(array * 0)
    fluid.io.load_params(exe, place)
assert w._place().is_gpu_place() and (np.array(w) == array).all()
""")
