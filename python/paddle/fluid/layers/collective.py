"""What ranks compute together, under the names that programs of 1.8.5 take from inside: sums, copies, rows of all ranks."""
import _trireme as _C

from ..layer_helper import LayerHelper

__all__ = []

_KINDS = ('sum', 'max', 'min', 'prod')
_allreduce = _C._allreduce


def _ring(op, x, out=None, rows=1, **attrs):
    """The result of an op of a ring: `out`, or a new variable with `rows` times the rows, named after x and the op."""
    helper = LayerHelper(op)
    if out is None:
        first = x.shape[0] * rows if x.shape[0] > 0 else -1
        out = helper.create_variable(name=_C.generate_name(f'{x.name}.{op}'), shape=[first, *x.shape[1:]], dtype=x.dtype,
                                     type=x.type, persistable=x.persistable)
    helper.append_op(type=op, inputs={'X': [x]}, outputs={'Out': [out]}, attrs=attrs)
    return out


def _c_allreduce(x, out=None, reduce_type='sum', ring_id=0, use_calc_stream=False):
    """The sum (max, min, prod) of x over all ranks of a ring."""
    if reduce_type not in _KINDS:
        raise TypeError(f'reduce_type is {reduce_type!r}; it is one of {", ".join(_KINDS)}')
    return _ring('c_allreduce_' + reduce_type, x, out, ring_id=ring_id, use_calc_stream=use_calc_stream)


def _c_broadcast(x, root=0, ring_id=0, use_calc_stream=False):
    """x becomes what it is on one rank of a ring."""
    return _ring('c_broadcast', x, x, root=root, ring_id=ring_id, use_calc_stream=use_calc_stream)


def _c_allgather(x, nranks, ring_id=0, use_calc_stream=False):
    """The rows of x of all ranks of a ring, in their order."""
    if nranks < 1:
        raise ValueError(f'nranks is {nranks}: give the number of ranks')
    return _ring('c_allgather', x, rows=nranks, nranks=nranks, ring_id=ring_id, use_calc_stream=use_calc_stream)


def _c_sync_calc_stream(x):
    """x; nothing is late here."""
    return _ring('c_sync_calc_stream', x, x)


def _c_sync_comm_stream(x, ring_id):
    """x; nothing is late here."""
    return _ring('c_sync_comm_stream', x, x, ring_id=ring_id)


def _c_reducescatter(x, nranks, ring_id=0, use_calc_stream=False):
    """Not built: the sum over all ranks has these rows, too."""
    raise NotImplementedError('layers.collective._c_reducescatter is not built in Trireme: take the rows of this rank out of '
                              '_c_allreduce(x)')


def _broadcast(x, root, sync_mode=False):
    """Not built: the op without a ring."""
    raise NotImplementedError('layers.collective._broadcast is not built in Trireme: use _c_broadcast, whose ring 0 has all ranks')
