"""LoDTensor, SelectedRows, scopes and numpy, in both directions."""
import gc

import numpy as np
import pytest

import paddle.fluid as fluid
from paddle.fluid import core

CPU = fluid.CPUPlace()


@pytest.mark.parametrize('dtype', 'bool uint8 int8 int16 int32 int64 float16 float32 float64'.split())
def test_every_element_type_goes_there_and_back(dtype):
    tensor = fluid.LoDTensor()
    array = np.array([[0, 1], [1, 0]]).astype(dtype)
    tensor.set(array, CPU)
    back = np.array(tensor)
    assert back.dtype == array.dtype and (back == array).all() and tensor.shape() == [2, 2]


def test_other_element_types_are_refused():
    with pytest.raises(ValueError, match='complex'):
        fluid.LoDTensor().set(np.ones(2, 'complex64'), CPU)


def test_asarray_shares_and_array_copies():
    tensor = fluid.LoDTensor()
    tensor.set(np.zeros((2, 2), 'float32'), CPU)
    view, copy = np.asarray(tensor), np.array(tensor)
    view[0, 0] = 7
    assert np.array(tensor)[0, 0] == 7 and copy[0, 0] == 0
    assert np.asarray(tensor, dtype='float64').dtype == np.float64
    del tensor
    gc.collect()
    assert view[0, 0] == 7  # the array keeps the memory


def test_set_writes_in_place_where_it_can():
    tensor = fluid.LoDTensor()
    tensor.set(np.zeros((2, 2), 'float32'), CPU)
    view = np.asarray(tensor)
    tensor.set(np.ones((2, 2), 'float32'), CPU)
    assert (view == 1).all()
    tensor.set(np.ones((3, 2), 'float32'), CPU)
    assert view.shape == (2, 2) and (view == 1).all() and tensor.shape() == [3, 2]


def test_zero_copy_uses_the_array_itself():
    array = np.zeros((2, 2), 'float32')
    tensor = fluid.LoDTensor()
    tensor.set(array, CPU, zero_copy=True)
    array[1, 1] = 5
    assert np.array(tensor)[1, 1] == 5


def test_lod_in_both_forms():
    tensor = fluid.LoDTensor([[2, 3]])
    tensor.set(np.zeros((5, 1), 'int64'), CPU)
    assert tensor.lod() == [[0, 2, 5]] and tensor.recursive_sequence_lengths() == [[2, 3]]
    assert tensor.has_valid_recursive_sequence_lengths()
    with pytest.raises(core.EnforceNotMet):
        tensor.set_lod([[0, 2, 9]])
    tensor.set_recursive_sequence_lengths([[1, 4]])
    assert tensor.lod() == [[0, 1, 5]]
    assert np.array(tensor[1:3]).shape == (2, 1) and tensor[1:3].lod() == []


def test_create_lod_tensor_from_lists():
    tensor = fluid.create_lod_tensor([[1, 2], [3, 4, 5]], [[2, 3]], CPU)
    assert np.array(tensor).tolist() == [[1], [2], [3], [4], [5]]
    with pytest.raises(TypeError):
        fluid.create_lod_tensor('text', [[1]], CPU)
    random = fluid.create_random_int_lodtensor([[2, 3]], [1], CPU, 0, 9)
    assert random.shape() == [5, 1]


def test_an_empty_tensor_says_so():
    tensor = fluid.LoDTensor()
    assert not tensor._is_initialized()
    with pytest.raises(RuntimeError, match='startup'):
        np.array(tensor)


def test_selected_rows():
    rows = core.SelectedRows([0, 4, 4], 10)
    rows.get_tensor().set(np.ones((3, 2), 'float32'), CPU)
    assert rows.rows() == [0, 4, 4] and rows.height() == 10 and rows.numel() == 6


def test_scopes_nest_and_forget():
    scope = fluid.Scope()
    slot = scope.var('x')
    slot.get_tensor().set(np.ones(3, 'float32'), CPU)
    kid = scope.new_scope()
    assert kid.find_var('x').get_tensor().shape() == [3]
    assert scope.find_var('nothing') is None
    kid.var('x').get_tensor().set(np.ones(5, 'float32'), CPU)
    assert scope.find_var('x').get_tensor().shape() == [3]
    scope.drop_kids()
    with pytest.raises(RuntimeError, match='drop_kids'):
        kid.find_var('x')
    tensor = slot.get_tensor()
    scope.erase(['x'])
    with pytest.raises(RuntimeError, match='erased'):
        tensor.shape()


def test_scope_guard_restores_after_errors():
    before = fluid.global_scope()
    with pytest.raises(KeyError):
        with fluid.scope_guard(fluid.Scope()):
            assert fluid.global_scope() is not before
            raise KeyError
    assert fluid.global_scope() is before


def test_places():
    assert fluid.CPUPlace() == fluid.CPUPlace() and fluid.CPUPlace() != fluid.CUDAPlace(0)
    assert str(fluid.CUDAPlace(1)) == 'CUDAPlace(1)' and fluid.CPUPlace()._equals(fluid.CPUPlace())
    place = core.Place()
    place.set_place(fluid.CUDAPlace(2))
    assert place.is_gpu_place() and place.gpu_device_id() == 2
    assert len(fluid.cpu_places(3)) == 3
    with pytest.raises(AssertionError):
        fluid.cuda_places()


def test_flags():
    assert fluid.get_flags('FLAGS_check_nan_inf') == {'FLAGS_check_nan_inf': False}
    fluid.set_flags({'FLAGS_check_nan_inf': True})
    assert fluid.get_flags(['FLAGS_check_nan_inf'])['FLAGS_check_nan_inf'] is True
    fluid.set_flags({'FLAGS_check_nan_inf': False})
    with pytest.raises(TypeError):
        fluid.set_flags('FLAGS_x')
    with pytest.raises(TypeError):
        fluid.get_flags(3)
    with pytest.raises(ValueError):
        fluid.set_flags({'FLAGS_no_such_flag': 1})
