"""Descriptors: the original's low-level view of programs, on top of the objects themselves.

The engine has one object per block, op and variable; a descriptor is a face of it with the method
names of the original's C++ classes.
"""
import _trireme as _C


def _text(name):
    return name.decode() if isinstance(name, bytes) else name


class _Desc:
    def __init__(self, thing):
        self._thing = thing

    def __eq__(self, other):
        return type(self) is type(other) and self._thing is other._thing

    def __hash__(self):
        return hash((type(self), id(self._thing)))


class VarDesc(_Desc):
    VarType = _C.VarType

    def name(self):
        return self._thing.name

    def shape(self):
        return list(self._thing.shape)

    get_shape = shape

    def set_shape(self, shape):
        self._thing._set_shape(list(shape))

    def set_name(self, name):
        self._thing.block._rename_var(self._thing.name, _text(name))

    def dtype(self):
        return self._thing.dtype

    def set_dtype(self, dtype):
        self._thing._set_dtype(dtype)

    def type(self):
        return self._thing.type

    def set_type(self, type):
        self._thing._set_type(type)

    def lod_level(self):
        return self._thing.lod_level

    def set_lod_level(self, level):
        self._thing._set_lod_level(level)

    def persistable(self):
        return self._thing.persistable

    def set_persistable(self, on):
        self._thing.persistable = on

    def stop_gradient(self):
        return self._thing.stop_gradient

    def set_stop_gradient(self, on):
        self._thing.stop_gradient = on

    def need_check_feed(self):
        return self._thing.need_check_feed

    def set_need_check_feed(self, on):
        self._thing.need_check_feed = on

    def is_parameter(self):
        return self._thing.is_parameter

    def clear_is_parameter(self):
        self._thing._drop_parameter()


class OpDesc(_Desc):
    """OpDesc() is an op of no program, until BlockDesc's append_op makes one and copies it."""

    def __init__(self, thing=None):
        super().__init__(_C.Program().global_block()._insert_raw_op(0, '') if thing is None else thing)

    def copy_from(self, other):
        """Takes type, operands, results and attributes of another op."""
        self._thing._copy_from(other._thing)

    def check_attrs(self):
        """Attributes that are not set get what the op table says; wrong ones are an error."""
        self._thing._fill_attrs()

    def infer_var_type(self, block):
        """Kinds and element types of the results, which must be in the block: they come with the shapes."""
        self._infer_in(block)

    def infer_shape(self, block):
        """Shapes of the results, which must be in the block."""
        self._infer_in(block)

    def _infer_in(self, block):
        if block._thing is not self._thing.block:
            raise ValueError(f'op {self.type()} is not in this block: append it with block.append_op()')
        self._thing._fill_attrs()
        self._thing._infer()

    def type(self):
        return self._thing.type

    def set_type(self, type):
        self._thing._set_type(type)

    def input(self, slot):
        return self._thing.input(_text(slot))

    def output(self, slot):
        return self._thing.output(_text(slot))

    def set_input(self, slot, names):
        self._thing._set_input(_text(slot), [_text(name) for name in names])

    def set_output(self, slot, names):
        self._thing._set_output(_text(slot), [_text(name) for name in names])

    def remove_input(self, slot):
        self._thing._remove_input(_text(slot))

    def remove_output(self, slot):
        self._thing._remove_output(_text(slot))

    def input_names(self):
        return self._thing.input_names

    def output_names(self):
        return self._thing.output_names

    def input_arg_names(self):
        return self._thing.input_arg_names

    def output_arg_names(self):
        return self._thing.output_arg_names

    def inputs(self):
        return {slot: self._thing.input(slot) for slot in self._thing.input_names}

    def outputs(self):
        return {slot: self._thing.output(slot) for slot in self._thing.output_names}

    def _rename_input(self, old, new):
        self._thing._rename_input(_text(old), _text(new))

    def _rename_output(self, old, new):
        self._thing._rename_output(_text(old), _text(new))

    def has_attr(self, name):
        return self._thing.has_attr(name)

    def attr(self, name):
        value = self._thing.attr(name)
        return value.desc if isinstance(value, _C.Block) else value

    def attr_names(self):
        return self._thing.attr_names

    def attr_type(self, name):
        from .op_proto import AttrType
        return AttrType(self._thing.attr_type(name))

    def _set_attr(self, name, value):
        self._thing._set_attr(name, value._thing if isinstance(value, BlockDesc) else value)

    def set_block_attr(self, name, block):
        self._set_attr(name, block)

    def set_blocks_attr(self, name, blocks):
        self._thing._set_attr(name, [block._thing for block in blocks])

    def _blocks_attr_ids(self, name):
        return [block.idx for block in self._thing.attr(name)]

    def remove_attr(self, name):
        self._thing._remove_attr(name)

    def _block_attr_id(self, name):
        return self._thing.attr(name).idx

    def block(self):
        return BlockDesc(self._thing.block)

    def is_target(self):
        return self._thing._is_target

    def set_is_target(self, on):
        self._thing._is_target = on


class BlockDesc(_Desc):
    @property
    def id(self):
        return self._thing.idx

    @property
    def parent(self):
        return self._thing.parent_idx

    def op_size(self):
        return self._thing._op_size()

    def op(self, index):
        return OpDesc(self._thing._op_at(index))

    def append_op(self):
        """A new op at the end, to be filled: copy_from, or set_type, set_input, set_output, _set_attr."""
        return self._insert_op(self.op_size())

    def _prepend_op(self):
        return self._insert_op(0)

    def _insert_op(self, index):
        return OpDesc(self._thing._insert_raw_op(index, ''))

    def _remove_op(self, begin, end):
        self._thing._remove_ops(begin, end)

    def has_var(self, name):
        return self._thing._find_var(_text(name)) is not None

    def find_var(self, name):
        found = self._thing._find_var(_text(name))
        return None if found is None else VarDesc(found)

    def find_var_recursive(self, name):
        found = self._thing._find_var_recursive(_text(name))
        return None if found is None else VarDesc(found)

    def has_var_recursive(self, name):
        return self._thing._find_var_recursive(_text(name)) is not None

    def var(self, name):
        found = self._thing._find_var(_text(name))
        return VarDesc(self._thing._create_var(name=_text(name)) if found is None else found)

    def all_vars(self):
        return [VarDesc(var) for var in self._thing._var_list()]

    def _remove_var(self, name):
        self._thing._remove_var(_text(name))

    def _rename_var(self, old, new):
        self._thing._rename_var(_text(old), _text(new))

    def get_forward_block_idx(self):
        return self._thing.forward_block_idx

    def _set_forward_block_idx(self, index):
        self._thing._set_forward_block_idx(index)


class ProgramDesc(_Desc):
    """ProgramDesc() is empty; ProgramDesc(bytes) and ProgramDesc(other) are copies."""

    def __init__(self, source=None):
        if source is None:
            source = _C.Program()
        elif isinstance(source, (bytes, str)):
            source = _C.Program._parse(source if isinstance(source, bytes) else source.encode())
        elif isinstance(source, ProgramDesc):
            source = _C.Program._parse(source._thing._serialize())
        super().__init__(source)

    def serialize_to_string(self):
        return self._thing._serialize()

    def parse_from_string(self, data):
        self._thing = _C.Program._parse(data)

    def flush(self):
        """Nothing is pending: every edit is in the program at once."""

    def num_blocks(self):
        return self._thing.num_blocks

    def block(self, index):
        return BlockDesc(self._thing.block(index))

    def append_block(self, parent):
        current = self._thing.current_block_idx
        block = self._thing._create_block(parent.id)
        self._thing.current_block_idx = current
        return BlockDesc(block)

    def _version(self):
        return self._thing._desc_version

    def _set_version(self, version=2004002):
        self._thing._desc_version = version

    def cached_hash_str(self):
        import hashlib
        return hashlib.sha256(self._thing._serialize()).hexdigest()

    def _names_of(self, type, names):
        ops = [op for op in self._thing.global_block().ops if op.type == type]
        return [names(op) for op in sorted(ops, key=lambda op: op.attr('col'))]

    def get_feed_target_names(self):
        return self._names_of('feed', lambda op: op.output('Out')[0])

    def get_fetch_target_names(self):
        return self._names_of('fetch', lambda op: op.input('X')[0])
