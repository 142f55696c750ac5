"""What tools, tests and model repositories of the 1.x years take from inside the package."""
import numpy as np
import pytest

import paddle
import paddle.compat as cpt
import paddle.fluid as fluid
import paddle.fluid.core as core
from paddle.fluid.op import Operator, get_all_op_protos


def small_net():
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        x = fluid.data('x', [None, 10])
        out = fluid.layers.fc(x, 20)
        loss = fluid.layers.mean(out)
    return main, startup, out, loss


# compat

@pytest.mark.parametrize('given, text', [(b'abc', 'abc'), ('abc', 'abc'), (None, None), (1.5, 1.5),
                                         ([b'a', 'b'], ['a', 'b']), ({b'a'}, {'a'}), ({b'a': b'b'}, {'a': 'b'})])
def test_to_text(given, text):
    assert cpt.to_text(given) == text


@pytest.mark.parametrize('given, data', [('中', b'\xe4\xb8\xad'), (None, None), (3, 3),
                                         (['a', b'b', 1], [b'a', b'b', 1]), ({'a'}, {b'a'})])
def test_to_bytes(given, data):
    assert cpt.to_bytes(given) == data


def test_text_in_place():
    held = [b'a', b'b']
    assert cpt.to_text(held, inplace=True) is held and held == ['a', 'b']


# What the original says of these numbers.
@pytest.mark.parametrize('x, d, wanted', [(2.5, 0, 3.0), (-2.5, 0, -3.0), (0.5, 0, 1.0), (1.25, 1, 1.3),
                                          (3.14159, 2, 3.14), (0, 0, 0.0)])
def test_round_is_half_away_from_zero(x, d, wanted):
    assert cpt.round(x, d) == wanted


def test_round_keeps_what_is_no_number():
    assert np.isnan(cpt.round(float('nan')))
    assert cpt.floor_division(-7, 2) == -4 and cpt.get_exception_message(ValueError('x')) == 'x'


# Single ops on a scope

def test_an_operator_runs_on_the_variables_of_a_scope():
    scope = core.Scope()
    scope.var('a').get_tensor().set(np.float32([[1, 2, 3], [4, 5, 6]]), fluid.CPUPlace())
    scope.var('b').get_tensor().set(np.ones((3, 2), 'float32'), fluid.CPUPlace())
    op = Operator('mul', X='a', Y='b', Out='c')
    assert op.inputs() == {'X': ['a'], 'Y': ['b']} and op.outputs() == {'Out': ['c']}
    assert str(op) == 'Op(mul), inputs:{X[a], Y[b]}, outputs:{Out[c]}.'
    op.run(scope, fluid.CPUPlace())
    np.testing.assert_array_equal(np.array(scope.find_var('c').get_tensor()), [[6, 6], [15, 15]])


def test_an_operator_updates_in_place():
    scope = core.Scope()
    for name, value in (('w', [1, 2]), ('g', [1, 1]), ('rate', [0.5])):
        scope.var(name).get_tensor().set(np.float32(value), fluid.CPUPlace())
    Operator('sgd', Param='w', Grad='g', LearningRate='rate', ParamOut='w').run(scope, fluid.CPUPlace())
    np.testing.assert_array_equal(np.array(scope.find_var('w').get_tensor()), [0.5, 1.5])


@pytest.mark.parametrize('call, says', [
    (lambda: Operator('nope', X='a'), 'no operator'),
    (lambda: Operator('mul', 'a', 'b'), 'by name'),
    (lambda: Operator('mul', X=['a', 'b'], Y='b', Out='c'), 'takes one variable'),
    (lambda: Operator('mul', X='a', Y='b', Out='c', foo=1), 'no attribute foo')])
def test_a_wrong_operator_says_what_is_wrong(call, says):
    with pytest.raises(ValueError, match=says):
        call()


def test_an_operator_whose_operand_has_no_value():
    with pytest.raises(RuntimeError, match='b has no value'):
        scope = core.Scope()
        scope.var('a').get_tensor().set(np.ones((2, 2), 'float32'), fluid.CPUPlace())
        Operator('mul', X='a', Y='b', Out='c').run(scope, fluid.CPUPlace())


def test_the_op_table_as_protos():
    proto = fluid.framework.OpProtoHolder.instance().get_op_proto('mul')
    assert [slot.name for slot in proto.inputs] == ['X', 'Y'] and proto.outputs[0].name == 'Out'
    assert {attr.name: attr.type for attr in proto.attrs}['x_num_col_dims'] == core.AttrType.INT
    assert Operator.get_op_inputs('sum') == [('X', True)] and 'mul' in {one.type for one in get_all_op_protos()}
    with pytest.raises(ValueError, match="'nope'"):
        fluid.framework.OpProtoHolder.instance().get_op_proto('nope')


# Descriptors

def test_an_op_is_appended_by_its_desc():
    main, startup, out, loss = small_net()
    block = main.global_block().desc
    op = block.append_op()
    assert op.type() == '' and block.op_size() == 4
    op.set_type('relu')
    op.set_input('X', ['x'])
    op.set_output('Out', ['r'])
    block.var(b'r')
    op.infer_var_type(block)
    op.infer_shape(block)
    assert block.find_var(b'r').shape() == [-1, 10] and block.op(0).attr_type('x_num_col_dims') == core.AttrType.INT
    given = -np.ones((2, 10), 'float32')
    exe = fluid.Executor(fluid.CPUPlace())
    scope = core.Scope()
    with fluid.scope_guard(scope):
        exe.run(startup)
        found, = exe.run(main, feed={'x': given}, fetch_list=['r'])
    np.testing.assert_array_equal(found, 0 * given)


def test_an_op_is_copied_from_another():
    main, *_ = small_net()
    block = main.global_block().desc
    copy = block.append_op()
    copy.copy_from(block.op(0))
    assert (copy.type(), copy.inputs(), copy.outputs()) == \
        (block.op(0).type(), block.op(0).inputs(), block.op(0).outputs())


def test_shapes_are_not_inferred_in_a_block_of_others():
    main, *_ = small_net()
    with pytest.raises(ValueError, match='not in this block'):
        core.OpDesc().infer_shape(main.global_block().desc)


def test_the_gradient_of_one_op():
    main, *_ = small_net()
    (grad,), variable_of = core.get_grad_op_desc(main.global_block().ops[0].desc, set(), [])
    assert grad.type() == 'mul_grad' and grad.outputs()['Y@GRAD'] == ['fc_0.w_0@GRAD']
    assert variable_of == {'x@GRAD': 'x', 'fc_0.w_0@GRAD': 'fc_0.w_0', 'fc_0.tmp_0@GRAD': 'fc_0.tmp_0'}


def test_parameters_are_marked_again_after_a_file():
    main, *_ = small_net()
    read = fluid.Program.parse_from_string(main.desc.serialize_to_string())
    main.global_block().var('fc_0.w_0').trainable = False
    read._copy_param_info_from(main)
    read._copy_data_info_from(main)
    assert not read.global_block().var('fc_0.w_0').trainable and read.global_block().var('x').is_data
    assert [param.name for param in read.all_parameters()] == [param.name for param in main.all_parameters()]
    with pytest.raises(ValueError, match='no variable of this one'):
        fluid.Program()._copy_param_info_from(main)


# Tensors

def test_a_tensor_is_shaped_first_and_gets_memory_later():
    tensor = core.LoDTensor()
    tensor._set_dims([2, 3])
    assert tensor.shape() == [2, 3] and not tensor._is_initialized()
    tensor._alloc_int(fluid.CPUPlace())
    assert np.array(tensor).dtype == np.int32 and tensor._get_dims() == [2, 3]
    tensor._alloc_double(fluid.CPUPlace())
    tensor._set_double_element(1, 2.5)
    tensor._set_dims([3, 2])
    assert tensor._get_double_element(1) == 2.5 and np.array(tensor)[0, 1] == 2.5


def test_lists_become_tensors():
    tensor = fluid.executor._as_lodtensor([[1, 2]], fluid.CPUPlace(), core.VarDesc.VarType.FP32)
    assert np.array(tensor).dtype == np.float32 and tensor.shape() == [1, 2]
    with pytest.raises((TypeError, ValueError)):
        fluid.executor._as_lodtensor([[1], [2, 3]], fluid.CPUPlace(), core.VarDesc.VarType.FP32)


# Small helpers

def test_helpers_of_backward():
    main, _, out, loss = small_net()
    assert fluid.backward._get_stop_gradients_(main)[0] == {'x@GRAD'}
    assert fluid.backward._strip_grad_suffix_('a@GRAD@RENAME@1') == 'a'
    assert fluid.backward._get_no_grad_set_name({'a', out}) == {'a', out.name}
    assert fluid.backward._as_list(None) == [] and fluid.backward._as_list((1, 2)) == [1, 2]


@pytest.mark.parametrize('value, wanted', [(3, [3, 3]), ([1, 2], [1, 2])])
def test_convert_to_list(value, wanted):
    assert fluid.layers.utils.convert_to_list(value, 2, 'x') == wanted
    for wrong in ([1, 2, 3], 'a', None):
        with pytest.raises(ValueError, match='x '):
            fluid.layers.utils.convert_to_list(wrong, 2, 'x')


@pytest.mark.parametrize('one, other, error, words', [
    ([1, [2, 3]], [1, 2], ValueError, 'one goes deeper'),
    ([1, 2], (1, 2), TypeError, 'a list stands where the other has a tuple'),
    ([1, 2], [1, 2, 3], ValueError, 'one holds 2 elements, the other 3'),
    ({'a': 1, 'b': 2}, {'a': 1, 'c': 2}, ValueError, "the keys .'a', 'b'., the other .'a', 'c'."),
    ([{'a': [1]}], [{'a': 1}], ValueError, 'one goes deeper')])
def test_structures_are_compared(one, other, error, words):
    fluid.layers.utils.assert_same_structure(one, one)
    with pytest.raises(error, match=words):
        fluid.layers.utils.assert_same_structure(one, other)
    if error is TypeError:
        fluid.layers.utils.assert_same_structure(one, other, check_types=False)


def test_parameters_by_name():
    main, startup, *_ = small_net()
    exe = fluid.Executor(fluid.CPUPlace())
    with fluid.scope_guard(core.Scope()):
        exe.run(startup)
        assert fluid.io.get_parameter_value_by_name('fc_0.w_0', exe, main).shape == (10, 20)
        with pytest.raises(AssertionError, match='no parameter'):
            fluid.io.get_parameter_value_by_name('x', exe, main)
    assert fluid.framework._get_var('x', main).name == 'x'
    assert fluid.io._get_valid_program(fluid.CompiledProgram(main)) is main
    with pytest.raises(TypeError):
        fluid.io._get_valid_program(3)


def test_ops_made_on_the_cpu_say_so():
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        with fluid.initializer.init_on_cpu():
            assert fluid.initializer.force_init_on_cpu()
            step = fluid.layers.fill_constant([1], 'float32', 1.0)
        assert step.op.attr('op_device') == 'cpu' and not fluid.initializer.force_init_on_cpu()


def test_a_field_under_its_former_name():
    strategy = fluid.BuildStrategy()
    strategy.fuse_broadcast_op = False
    assert strategy.fuse_broadcast_ops is False and strategy.fuse_broadcast_op is False
    with pytest.raises(AttributeError):
        strategy.no_such_field


def test_loaders_know_what_they_are():
    x = fluid.data('x_of_loader', [None, 2])
    loader = fluid.io.DataLoader.from_generator(feed_list=[x], capacity=2, iterable=True)
    assert isinstance(loader, fluid.reader.DataLoaderBase) and loader.iterable and loader.queue is None


def test_a_stack_of_scopes():
    from paddle.fluid import default_scope_funcs as scopes
    scopes.var('outside')

    def inside():
        scopes.var('inside')
        assert scopes.find_var('outside') is not None
        return scopes.find_var('inside') is not None
    assert scopes.scoped_function(inside) and scopes.find_var('inside') is None
    with pytest.raises(RuntimeError, match='without enter'):
        scopes.leave_local_scope()


def test_where_other_modules_are():
    import paddle.common_ops_import as ops_import
    from paddle.fluid.dygraph.nn import Conv2D
    from paddle.fluid.log_helper import get_logger
    assert paddle.utils.unique_name is fluid.unique_name and paddle.framework.core is core
    assert ops_import.LayerHelper is fluid.layer_helper.LayerHelper
    assert len(get_logger('of a test', 20, fmt='%(message)s').handlers) == 1
    assert fluid.HashName and fluid.layers.device.get_places(3) and len(fluid.layers.device.get_places(3)) == 3

    class Net(fluid.dygraph.Layer):
        pass
    for use in (lambda: Conv2D(1, 2, 3), Net, lambda: fluid.dygraph.to_variable(1)):
        with pytest.raises(NotImplementedError, match='static programs only'):
            use()


def test_run_check_says_that_it_trains(capsys):
    fluid.install_check.run_check()
    assert capsys.readouterr().out.count('trains on') == 2


def test_a_block_is_drawn(tmp_path, capsys):
    main, startup, out, _ = small_net()
    path = str(tmp_path / 'block.dot')
    fluid.debugger.draw_block_graphviz(main.global_block(), highlights=[out.name], path=path)
    text = open(path).read()
    assert text.count('shape=box') == 3 and text.count('fillcolor=yellow') == 1 and 'fc_0.w_0' in text
    fluid.debugger.pprint_program_codes(main.desc)
    assert 'elementwise_add' in capsys.readouterr().out
    assert 'cluster_main' in str(fluid.net_drawer.draw_graph(startup, main))


def test_the_distributed_table_is_found():
    from paddle.fluid import distribute_lookup_table as tables
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup):
        ids = fluid.layers.data('ids', [1], dtype='int64')
        rows = fluid.layers.embedding(ids, [10, 4], is_sparse=True, is_distributed=True, param_attr='table')
        fluid.layers.embedding(ids, [10, 4], param_attr='other')
    assert tables.find_distributed_lookup_table(main) == 'table'
    assert tables.find_distributed_lookup_table_inputs(main, 'table')[0].name == 'ids'
    assert tables.find_distributed_lookup_table_outputs(main, 'table')[0].name == rows.name
    assert tables.find_distributed_lookup_table(fluid.Program()) is None
    with fluid.program_guard(main, startup):
        fluid.layers.embedding(ids, [10, 4], is_distributed=True, param_attr='second')
    with pytest.raises(RuntimeError, match='table, second'):
        tables.find_distributed_lookup_table(main)


def test_readers_of_arrays_and_files(tmp_path):
    (tmp_path / 'lines').write_text('a\nb\n')
    assert list(paddle.reader.creator.np_array(np.arange(3))()) == [0, 1, 2]
    assert list(paddle.reader.creator.text_file(str(tmp_path / 'lines'))()) == ['a', 'b']


@pytest.mark.parametrize('use', [
    lambda: paddle.reader.creator.recordio('x'), lambda: paddle.dataset.common.convert('x', None, 1, 'y'),
    lambda: fluid.layers.io.open_files(['x']), lambda: fluid.layers.io.batch(None, 3)])
def test_what_is_no_more_says_what_to_use(use):
    with pytest.raises(NotImplementedError, match='use|Use|read them'):
        use()


def test_smaller_names_do_what_they_did():
    from paddle.fluid.layer_helper_base import LayerHelperBase
    from paddle.fluid.recordio_writer import convert_reader_to_recordio_file
    assert LayerHelperBase('mine', 'fc').name == 'mine'
    main, startup, out, _ = small_net()
    fluid.transpiler.InferenceTranspiler().transpile(main, fluid.CPUPlace())
    assert [op.type for op in main.global_block().ops] == ['mul', 'elementwise_add', 'mean']
    with pytest.raises(TypeError, match='Program'):
        fluid.transpiler.InferenceTranspiler().transpile(3, fluid.CPUPlace())
    from paddle.fluid.layers import ops, tensor
    assert tensor.Variable is fluid.framework.Variable and ops._scale is fluid.layers.scale
    with pytest.raises(NotImplementedError, match='RecordIO'):
        convert_reader_to_recordio_file('x', None)


def test_threads_are_set_by_the_cores_name():
    before = fluid.core.globals()['paddle_num_threads']
    try:
        fluid.core.set_num_threads(3)
        assert fluid.core.globals()['paddle_num_threads'] == 3
    finally:
        fluid.core.set_num_threads(before)


@pytest.mark.parametrize('name, says', [('open_files', 'DataLoader.from_generator'), ('open_recordio_file', 'DataLoader'),
                                        ('Preprocessor', 'map_readers'), ('batch', 'paddle.batch'), ('shuffle', 'paddle.reader')])
def test_readers_that_were_ops_say_what_to_use(name, says):
    with pytest.raises(NotImplementedError, match=says):
        getattr(fluid.layers, name)
    assert not hasattr(fluid.layers, name)
    with pytest.raises(NotImplementedError, match='cluster_files_reader'):
        fluid.recordio_writer.convert_reader_to_recordio_file('a', None, None)


def test_a_compiled_program_says_its_places(environment, monkeypatch):
    monkeypatch.setenv('CPU_NUM', '2')
    main, _ = fluid.Program(), small_net()
    alone, given, open_ = (fluid.CompiledProgram(main) for _ in range(3))
    given.with_data_parallel(places=[fluid.CPUPlace()] * 3)
    open_.with_data_parallel()
    assert alone._places is None and len(given._places) == 3 and open_._places is None
    for compiled, count in ((alone, 1), (given, 3), (open_, 2)):
        assert compiled._compile(fluid.global_scope(), fluid.CPUPlace()) is compiled
        assert compiled._places == [fluid.CPUPlace()] * count


def test_machines_are_counted_by_their_addresses(monkeypatch):
    from paddle.distributed import fleet

    class Chosen:
        def worker_endpoints(self):
            return ['10.0.0.1:1', '10.0.0.1:2', '10.0.0.2:1']
    monkeypatch.setattr(fleet, '_chosen', Chosen())
    assert fleet.node_num() == 2
