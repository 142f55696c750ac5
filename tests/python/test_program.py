"""Programs, blocks, ops and variables as Python sees them."""
import gc

import numpy as np
import pytest

import paddle
import paddle.fluid as fluid
from paddle.fluid.framework import Parameter, Program, Variable


def small_net():
    x = fluid.layers.data('x', [4])
    return x, fluid.layers.fc(x, 3, act='relu')


def test_the_same_thing_is_the_same_object(fresh):
    main, _ = fresh
    x, _ = small_net()
    block = main.global_block()
    assert block.var('x') is x and block.vars['x'] is x and x.block is block
    assert block.program is main and fluid.default_main_program() is main
    assert block.ops[0] is block.ops[0] and block.ops[0].block is block


def test_a_variable_keeps_its_program_alive():
    def build():
        program = Program()
        with fluid.program_guard(program, Program()):
            return small_net()[1]
    out = build()
    gc.collect()
    assert out.name == 'fc_0.tmp_2' and out.op.type == 'relu'
    assert len(out.block.program.global_block().ops) == 3


def test_removed_things_can_still_be_looked_at(fresh):
    main, _ = fresh
    small_net()
    op = main.global_block().ops[-1]
    main.global_block()._remove_op(2)
    assert op.type == 'relu' and len(main.global_block().ops) == 2


def test_variables_take_attributes_of_the_users(fresh):
    x, _ = small_net()
    x.mine = 7
    assert x.mine == 7


def test_comparison_builds_an_op_and_hash_stays(fresh):
    main, _ = fresh
    x, _ = small_net()
    equal = x == x
    assert isinstance(equal, Variable) and main.global_block().ops[-1].type == 'equal'
    assert {x: 1}[x] == 1 and len({x, x}) == 1


def test_parameters_are_parameters(fresh):
    main, _ = fresh
    x, out = small_net()
    w, b = main.all_parameters()
    assert isinstance(w, Parameter) and isinstance(w, Variable) and not isinstance(x, Parameter)
    assert w.trainable and w.optimize_attr == {'learning_rate': 1.0} and w.regularizer is None
    assert not hasattr(x, 'trainable')
    w.trainable = False
    assert w.stop_gradient


def test_param_attr_says_name_initializer_and_rate(fresh):
    main, startup = fresh
    x = fluid.layers.data('x', [4])
    attr = fluid.ParamAttr(name='mine', initializer=fluid.initializer.Constant(2.0),
                           learning_rate=0.5, regularizer=fluid.regularizer.L2Decay(0.1))
    fluid.layers.fc(x, 3, param_attr=attr, bias_attr=False)
    w, = main.all_parameters()
    assert w.name == 'mine' and w.optimize_attr['learning_rate'] == 0.5
    assert w.regularizer._regularization_coeff == pytest.approx(0.1)
    assert [op.type for op in startup.global_block().ops] == ['fill_constant']
    with pytest.raises(ValueError):
        fluid.ParamAttr(name='')
    with pytest.raises(TypeError):
        fluid.layers.fc(x, 3, param_attr=3.5)


def test_an_initializer_of_the_users_own(fresh, exe):
    class Twos(fluid.initializer.Initializer):
        def __call__(self, var, block):
            block.append_op(type='fill_constant', outputs={'Out': var},
                            attrs={'shape': list(var.shape), 'dtype': var.dtype, 'value': 2.0})
    _, startup = fresh
    x = fluid.layers.data('x', [4])
    fluid.layers.fc(x, 3, param_attr=fluid.ParamAttr(name='w', initializer=Twos()))
    gc.collect()
    exe.run(startup)
    assert (np.array(fluid.global_scope().find_var('w').get_tensor()) == 2).all()


def test_operators_append_ops_named_tmp(fresh):
    main, _ = fresh
    x, out = small_net()
    before = len(main.global_block().ops)
    y = 2.0 * out + 1.0 - out / 4.0
    assert y.name.startswith('tmp_')
    assert [op.type for op in main.global_block().ops[before:]] == [
        'scale', 'scale', 'scale', 'elementwise_sub']
    assert len(out[0:2, 1].shape) == 1
    assert out.astype('int64').dtype == fluid.core.VarDesc.VarType.INT64
    with pytest.raises(TypeError):
        out + 'text'
    with pytest.raises(TypeError):
        iter(out)


def test_guards_nest_and_restore_after_errors(fresh):
    main, startup = fresh
    other = Program()
    with pytest.raises(RuntimeError):
        with fluid.program_guard(other):
            assert fluid.default_main_program() is other
            assert fluid.default_startup_program() is startup
            raise RuntimeError
    assert fluid.default_main_program() is main
    with pytest.raises(TypeError):
        with fluid.program_guard('main'):
            pass
    with fluid.name_scope('a'), fluid.name_scope('b'):
        x = fluid.layers.data('x', [4])
        fluid.layers.relu(x)
    assert main.global_block().ops[-1].attr('op_namescope') == '/a/b/'
    with fluid.device_guard('cpu'):
        fluid.layers.relu(x)
    assert main.global_block().ops[-1].attr('op_device') == 'cpu'
    fluid.layers.relu(x)
    assert main.global_block().ops[-1].attr('op_namescope') == '/'
    assert main.global_block().ops[-1].attr('op_device') == ''
    with pytest.raises(ValueError):
        with fluid.device_guard('toaster'):
            pass
    with pytest.raises(AssertionError):
        with fluid.name_scope(''):
            pass


def test_unique_names_count_per_key():
    with fluid.unique_name.guard('A'):
        assert fluid.unique_name.generate('fc') == 'Afc_0'
        assert fluid.unique_name.generate('fc') == 'Afc_1'
        assert fluid.unique_name.generate('mean') == 'Amean_0'
    assert fluid.unique_name.generate('fc') == 'fc_0'


def test_bytes_come_back_as_an_equal_program(fresh):
    main, _ = fresh
    small_net()
    data = main.desc.serialize_to_string()
    again = Program.parse_from_string(data)
    assert again.desc.serialize_to_string() == data
    assert fluid.core.ProgramDesc(data).block(0).op_size() == 3
    with pytest.raises(ValueError):
        Program.parse_from_string(b'\xff\xff\xff not a program')


def test_printing_in_both_forms(fresh, monkeypatch):
    main, _ = fresh
    small_net()
    assert 'type: "mul"' in str(main) and 'blocks {' in main.to_string(True)
    monkeypatch.setattr(fluid.framework, '_print_as_2_4', True)
    assert "{Out=['fc_0.tmp_0']} = mul(inputs={X=['x'], Y=['fc_0.w_0']}" in str(main)
    assert 'persist trainable param fc_0.w_0' in str(main)
    with pytest.raises(AssertionError):
        main.to_string(1)
    assert 'trainable: True' in main.to_string(True, with_details=True)


def test_seed_must_be_an_int():
    program = Program()
    program.random_seed = 3
    assert program.random_seed == 3
    with pytest.raises(ValueError):
        program.random_seed = 'x'


def test_append_op_checks_and_descs(fresh):
    main, _ = fresh
    block = main.global_block()
    x = fluid.layers.data('x', [4])
    out = block.create_var(name='out', dtype='float32')
    op = block.append_op(type='scale', inputs={'X': [x]}, outputs={'Out': ['out']},
                         attrs={'scale': 3})
    assert out.shape == (-1, 4) and op.attr('scale') == 3.0 and op.desc.input('X') == ['x']
    op._set_attr('scale', 2.0)
    assert op.all_attrs()['scale'] == 2.0
    with pytest.raises(TypeError):
        block.append_op(type='scale', inputs={'X': [3]}, outputs={'Out': out})
    with pytest.raises(NotImplementedError):
        block.append_op(type='no_such_op')
    with pytest.raises(ValueError):
        block.var('nothing')
    with pytest.raises(TypeError):
        block.var(3)
    with pytest.raises(ValueError):
        block.create_var(name='out', shape=[3, 3], dtype='float32')


def test_names_for_2_4():
    assert paddle.__version__ == '2.4.2' and paddle.get_default_dtype() == 'float32'
    assert paddle.static.data('y', [None, 2]).dtype == paddle.float32
    with pytest.raises(NotImplementedError):
        paddle.disable_static()
    fluid.require_version('1.8.0')


def test_dynamic_mode_says_that_there_is_none():
    with pytest.raises(NotImplementedError, match='Trireme runs static programs only'):
        with fluid.dygraph.guard():
            pass
    for use in (lambda: fluid.dygraph.to_variable(np.zeros(1)), fluid.dygraph.Layer,
                fluid.enable_dygraph, fluid.dygraph.nn.Linear):
        with pytest.raises(NotImplementedError, match='static programs only'):
            use()
    assert not fluid.in_dygraph_mode() and not fluid.dygraph.enabled()
