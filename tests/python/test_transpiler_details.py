"""fluid.transpiler.details and fluid.transpiler.collective: what other people's tools import."""
import io

import pytest

import paddle.fluid as fluid
from paddle.fluid.transpiler import collective, details
from paddle.fluid.transpiler.distribute_transpiler import VarBlock

SERVERS = '127.0.0.1:6174,127.0.0.1:6175'
EP0, EP1 = SERVERS.split(',')


def net(optimizer=None):
    x = fluid.layers.data('x', [1000])
    out = fluid.layers.fc(x, 1000, param_attr='fc_w', bias_attr='fc_b')
    (optimizer or fluid.optimizer.SGD(0.1)).minimize(fluid.layers.mean(out))
    return fluid.default_main_program()


def types(program):
    return [op.type for op in program.global_block().ops]


def test_records_of_slices_answer_questions():
    main = net(fluid.optimizer.Adam(0.1))
    fluid.DistributeTranspiler().transpile(0, pservers=SERVERS, trainers=2)
    slices = main._parameters_on_pservers
    there = slices.get_distributed_var_by_origin_and_ep('fc_w', EP0)
    assert (there.slice.name, there.slice.shape, there.is_slice) == ('fc_w.block1', (500, 1000), True)
    assert (there.origin.name, there.origin.shape, there.block_id) == ('fc_w', (1000, 1000), 1)
    assert slices.get_distributed_var_by_origin_and_ep('fc_b', EP1) is None
    assert slices.get_distributed_var_by_slice('nothing') is None
    params = slices.get_distributed_vars_by_vtypes(['Param'])
    assert [var.slice.name for var in params] == ['fc_b', 'fc_w.block0', 'fc_w.block1']
    by_origin = slices.get_distributed_vars_by_vtypes(['Optimizer'], groupby=True)
    assert len(by_origin['fc_w_moment1_0']) == 2
    # State that is not shaped like the parameter is whole wherever a slice is.
    assert [var.is_slice for var in by_origin['fc_w_beta1_pow_acc_0']] == [False, False]
    assert all(var.vtype == 'Optimizer'
               for var in slices.get_distributed_vars_by_ep(EP0, 'Optimizer'))
    assert len(slices.overview().splitlines()) == len(slices.distributed_vars)
    assert str(VarBlock('w', 1, 500)) == 'w:1:500'


def test_union_find():
    sets = details.UnionFind(['a', 'b', 'c'])
    assert not sets.is_connected('a', 'b')
    sets.union('a', 'b')
    assert sets.is_connected('a', 'b') and not sets.is_connected('a', 'c')
    assert sets.find('unknown') == -1


def test_ops_are_found_and_deleted():
    block = net().global_block()
    at = details.find_op_by_output_arg(block, 'fc_w', reverse=True)
    assert block.ops[at].type == 'sgd'
    assert details.find_op_by_output_arg(block, 'nothing') == -1
    before = len(block.ops)
    details.delete_ops(block, [op for op in block.ops if op.type == 'sgd'])
    assert len(block.ops) == before - 2 and 'sgd' not in types(fluid.default_main_program())


def test_programs_are_printed():
    out = io.StringIO()
    details.program_to_code(net(), out)
    assert 'sgd' in out.getvalue() and 'fc_w' in out.getvalue()


@pytest.mark.parametrize('transpiler, ops', [
    (collective.GradAllReduce, ['c_allreduce_sum', 'sgd']),
    (collective.LocalSGD, ['sgd', 'c_allreduce_sum'])])
@pytest.mark.parametrize('endpoints', [SERVERS, [EP0, EP1]])
def test_collective_transpilers(transpiler, ops, endpoints):
    main, startup = net(), fluid.default_startup_program()
    transpiler(nrings=1).transpile(startup, main, 1, endpoints, EP1)
    found = [op for op in types(main) if op in ops]
    assert found.index(ops[0]) < found.index(ops[1])
    assert types(startup).count('c_gen_nccl_id') == 1
    assert main._trainers_endpoints == [EP0, EP1]
