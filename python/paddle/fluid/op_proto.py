"""What the op table says of an op, in the form of the original's OpProto messages."""
import enum

import _trireme as _C

from . import core


class AttrType(enum.IntEnum):
    """The kinds of attributes, with the numbers that files hold."""

    INT = 0
    FLOAT = 1
    STRING = 2
    INTS = 3
    FLOATS = 4
    STRINGS = 5
    BOOL = BOOLEAN = 6
    BOOLS = BOOLEANS = 7
    BLOCK = 8
    LONG = 9
    BLOCKS = 10
    LONGS = 11


_BY_NAME = {'int': AttrType.INT, 'float': AttrType.FLOAT, 'string': AttrType.STRING, 'ints': AttrType.INTS,
            'floats': AttrType.FLOATS, 'strings': AttrType.STRINGS, 'bool': AttrType.BOOL,
            'bools': AttrType.BOOLS, 'block': AttrType.BLOCK, 'long': AttrType.LONG,
            'blocks': AttrType.BLOCKS, 'longs': AttrType.LONGS}


class OpProto:
    """An op's row: type, comment, inputs, outputs and attrs."""

    class Var:
        def __init__(self, slot):
            self.name, self.comment = slot['name'], slot['doc']
            self.duplicable, self.intermediate = slot['duplicable'], slot['intermediate']
            self.dispensable = slot['dispensable']

    class Attr:
        def __init__(self, attr):
            self.name, self.comment, self.generated = attr['name'], attr['doc'], False
            self.type = _BY_NAME.get(attr['type'], AttrType.INT)

    def __init__(self, row):
        self.type, self.comment = row['type'], row['doc']
        self.inputs = [OpProto.Var(slot) for slot in row['inputs']]
        self.outputs = [OpProto.Var(slot) for slot in row['outputs']]
        self.attrs = [OpProto.Attr(attr) for attr in row['attrs']]


def get_all_op_protos():
    """The OpProto of every op that is no gradient, in the order of the op table."""
    rows = map(_C.op_row, _C.op_types())
    return [OpProto(row) for row in rows if not row['is_grad']]


class OpProtoHolder:
    """OpProtoHolder.instance().get_op_proto('mul')"""

    _instance = None

    @classmethod
    def instance(cls):
        if cls._instance is None:
            cls._instance = cls()
        return cls._instance

    def __init__(self):
        assert OpProtoHolder._instance is None, 'use OpProtoHolder.instance()'

    def get_op_proto(self, type):
        if not _C.has_op(type):
            raise ValueError(f'there is no operator {type!r} in the op table')
        return OpProto(_C.op_row(type))

    def update_op_proto(self):
        """Nothing to do: the op table is asked each time."""

    @staticmethod
    def generated_op_attr_names():
        kinds = core.op_proto_and_checker_maker
        return {kinds.kOpRoleAttrName(), kinds.kOpRoleVarAttrName(), kinds.kOpNameScopeAttrName(),
                kinds.kOpCreationCallstackAttrName(), kinds.kOpDeviceAttrName()}


core.AttrType = AttrType
core.get_all_op_protos = get_all_op_protos
