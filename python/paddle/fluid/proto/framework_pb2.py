"""framework.proto as programs name it: kinds of attributes and variables, and readers of model files.

Messages are not edited field by field here: a ProgramDesc is read and written by fluid.core.ProgramDesc,
whose methods are the original's, and an OpProto is what fluid.op.get_all_op_protos gives.
"""
from .. import core
from ..op_proto import AttrType, OpProto as _OpProto

INT, FLOAT, STRING, INTS, FLOATS, STRINGS = (AttrType.INT, AttrType.FLOAT, AttrType.STRING, AttrType.INTS,
                                             AttrType.FLOATS, AttrType.STRINGS)
BOOLEAN, BOOLEANS, BLOCK, LONG, BLOCKS, LONGS = (AttrType.BOOLEAN, AttrType.BOOLEANS, AttrType.BLOCK,
                                                 AttrType.LONG, AttrType.BLOCKS, AttrType.LONGS)
VarType = core.VarDesc.VarType
BlockDesc, OpDesc, VarDesc, OpProto = core.BlockDesc, core.OpDesc, core.VarDesc, _OpProto


class ProgramDesc(core.ProgramDesc):
    """A program read from the bytes of a model file."""

    @classmethod
    def FromString(cls, data):
        return cls(data)

    def ParseFromString(self, data):
        self.parse_from_string(data)

    def SerializeToString(self):
        return self.serialize_to_string()
