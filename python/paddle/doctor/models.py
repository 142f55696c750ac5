"""Model files: whether every op can run, and how much memory a step needs at a batch size."""
import collections
import os

import _trireme as _C

from ..fluid import core
from ..fluid.compiler import CompiledProgram
from ..fluid.executor import Executor
from ..fluid.framework import Program
from .findings import Finding

# A finding that concerns a model has line 0, and the op's number in its text.


def check_model(path):
    """(findings, the program; None when the file cannot be read)"""
    try:
        with open(path, 'rb') as file:
            program = Program.parse_from_string(file.read())
    except (OSError, RuntimeError, ValueError) as error:
        return [Finding(0, 'syntax', path, f'is no model file: {error}')], None
    findings, unknown = [], collections.Counter()
    for block in program.blocks:
        for number, op in enumerate(block.ops):
            if not _C.has_op(op.type):
                unknown[op.type] += 1
            elif _C.op_row(op.type)['cannot_run']:
                findings.append(Finding(0, 'refused', op.type, f'op {number} of block {block.idx}: {op.type} cannot run '
                                        'here: it talks to other processes'))
            else:
                findings += _wrong_in(op, number, block.idx)
    findings += [Finding(0, 'missing', kind, f'{count} op{"s" if count > 1 else ""} {kind}, which the op table does '
                         'not have', 'docs/ops.md lists those that it has') for kind, count in unknown.items()]
    return sorted(findings), program


def _wrong_in(op, number, block):
    """Slots and attributes that the op's row does not have, or has otherwise: checked on a copy."""
    copy = core.OpDesc()
    copy._thing._copy_from(op)
    try:
        copy._thing._fill_attrs()
    except (RuntimeError, ValueError, TypeError) as error:
        text, _, fix = str(error).partition('\n  fix: ')
        return [Finding(0, 'argument', op.type, f'op {number} of block {block}, {op.type}: {text}', fix)]
    return []


def feeds_and_fetches(program):
    desc = program.desc
    feeds = desc.get_feed_target_names() or [var.name for var in program.list_vars() if var.need_check_feed]
    return feeds, desc.get_fetch_target_names()


def memory(program, batch, shapes=None):
    """CompiledProgram.memory() of a step on `batch` rows. `shapes` gives feeds whose other dimensions are not known."""
    feeds, fetches = feeds_and_fetches(program)
    scope = core.Scope()
    for var in program.list_vars():
        if var.persistable and var.type == core.VarDesc.VarType.LOD_TENSOR and var._has_shape:
            _fill(scope.var(var.name).get_tensor(), list(var.shape), var.dtype)
    feed = {}
    for name in feeds:
        var = program.global_block().var(name)
        tensor = feed[name] = core.LoDTensor()
        shape = list((shapes or {}).get(name) or _batched(name, var.shape, batch))
        _fill(tensor, shape, var.dtype)
        if var.lod_level:  # each row a sequence of its own
            tensor.set_recursive_sequence_lengths([[1] * shape[0]] * var.lod_level)
    return CompiledProgram(program).memory(Executor(core.CPUPlace()), feed=feed, fetch_list=fetches, scope=scope)


def _fill(tensor, shape, dtype):
    """Memory of this shape; nobody reads what is in it."""
    tensor._set_dims([max(extent, 1) for extent in shape])
    tensor._mutable_data(core.CPUPlace(), dtype)


def _batched(name, shape, batch):
    if any(extent < 0 for extent in shape[1:]):
        raise ValueError(f'{name} has the shape {list(shape)}; say which one it is fed: --shape '
                         f'{name}={",".join(str(batch if e < 0 else e) for e in shape)}')
    return [batch if extent < 0 else extent for extent in shape]


def is_model(path):
    name = os.path.basename(path)
    return name == '__model__' or name.endswith('.pdmodel')
