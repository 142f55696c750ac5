"""How many of the names that public code uses are served, and how often it uses those: printed, and never fewer."""
import importlib.util
import os

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_spec = importlib.util.spec_from_file_location('count', os.path.join(ROOT, 'tools', 'count.py'))
count = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(count)


def test_no_fewer_names_are_served_than_were():
    (names, all_names, uses, all_uses), missing = count.used_names_served()
    print(f'used names served: {names} of {all_names}, {uses} of {all_uses} uses')
    assert (all_names, all_uses) == (1478, 58421)
    assert names >= 1285 and uses >= 58050, missing[:20]


def test_a_name_may_be_a_module_or_stand_in_a_class():
    for name in ('paddle.fluid.layers.device', 'paddle.fluid.layers.core.VarDesc.VarType.FP32',
                 'paddle.fluid.op.Operator.get_op_outputs', 'paddle.fluid.proto.framework_pb2.FLOATS'):
        assert count.name_is_served(name), name


def test_what_fleet_says_can_be_named_before_init():
    from paddle.distributed.fleet import node_num, save_persistables, worker_index
    for ask in (worker_index, node_num, lambda: save_persistables(None, 'folder')):
        with pytest.raises(RuntimeError, match='fleet.init'):
            ask()
    assert count.name_is_served('paddle.distributed.fleet.worker_index')


def test_what_does_not_resolve_or_only_raises_is_not_served():
    for name in ('paddle.no_such', 'paddle.fluid.layers.no_such.fc', 'paddle.fluid.dygraph.to_variable',
                 'paddle.dataset.common.convert', 'paddle.fluid.op.Operator.no_such'):
        assert not count.name_is_served(name), name
