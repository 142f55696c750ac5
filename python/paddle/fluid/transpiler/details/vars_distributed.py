"""Where the parts of variables are: program._parameters_on_pservers."""
import dataclasses

from ...framework import Program, _extend


@dataclasses.dataclass(eq=False)
class VarStruct:
    """A variable without its program."""

    name: str
    shape: list
    dtype: object
    type: str
    lod_level: int
    persistable: bool

    def __str__(self):
        return f'{self.dtype} {self.name}{list(self.shape)}'


class VarDistributed:
    """One part of a variable on one server."""

    def __init__(self, record):
        common = (record.dtype, 'LOD_TENSOR', record.lod_level, record.persistable)
        self.origin = VarStruct(record.origin_name, record.origin_shape, *common)
        self.slice = VarStruct(record.slice_name, record.slice_shape, *common)
        self.is_slice = record.is_slice
        self.block_id = record.block_id
        self.offset = record.offset
        self.vtype = record.vtype
        self.endpoint = record.endpoint

    def __str__(self):
        part = f'part {self.block_id} at {self.offset} of {self.origin}' if self.is_slice else 'whole'
        return f'{self.vtype} {self.slice} on {self.endpoint}: {part}'


class VarsDistributed:
    """All parts, with questions about them."""

    def __init__(self, records=()):
        self.distributed_vars = [VarDistributed(record) for record in records]

    def get_distributed_var_by_slice(self, var_name):
        for var in self.distributed_vars:
            if var.slice.name == var_name:
                return var
        return None

    def get_distributed_var_by_origin_and_ep(self, origin_var_name, endpoint):
        for var in self.distributed_vars:
            if var.origin.name == origin_var_name and var.endpoint == endpoint:
                return var
        return None

    def get_distributed_vars_by_vtypes(self, vtypes, groupby=False):
        found = [var for var in self.distributed_vars if var.vtype in vtypes]
        if not groupby:
            return found
        by_origin = {}
        for var in found:
            by_origin.setdefault(var.origin.name, []).append(var)
        return by_origin

    def get_distributed_vars_by_ep(self, endpoint, vtype=None):
        return [var for var in self.distributed_vars
                if var.endpoint == endpoint and vtype in (None, var.vtype)]

    def overview(self):
        return '\n'.join(str(var) for var in self.distributed_vars)


@_extend(Program)
@property
def _parameters_on_pservers(self):
    return VarsDistributed(self._slices_on_pservers) if self._is_distributed else None
