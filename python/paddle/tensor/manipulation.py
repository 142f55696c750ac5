"""Functions of 2.4 on the shape of variables and the place of their elements."""
import _trireme as _C

from .._style import check_axis, one, static_style
from ..fluid import layers as _layers

__all__ = ['cast', 'reshape', 'reshape_', 'transpose', 'concat', 'split', 'vsplit', 'chunk', 'stack', 'unstack', 'unbind',
           'squeeze', 'squeeze_', 'unsqueeze', 'unsqueeze_', 'flatten', 'unflatten', 'moveaxis', 'expand', 'expand_as',
           'broadcast_to', 'broadcast_tensors', 'tile', 'flip', 'reverse', 'roll', 'rot90', 'gather', 'gather_nd',
           'scatter', 'scatter_', 'scatter_nd', 'scatter_nd_add', 'slice', 'strided_slice', 'crop', 'unique',
           'unique_consecutive', 'take_along_axis', 'put_along_axis', 'index_add', 'masked_fill', 'repeat_interleave',
           'shard_index', 'atleast_1d', 'atleast_2d', 'atleast_3d', 'view', 'view_as', 'take', 'index_fill']


@static_style
def cast(x, dtype):
    return _C.cast(x, dtype)


@static_style
def reshape(x, shape, name=None):
    """x with another shape: 0 keeps an extent, -1 takes what is left."""
    return _C.reshape(x, shape, name=name)


@static_style
def transpose(x, perm, name=None):
    return _C.transpose(x, [check_axis('transpose', p, x) for p in perm], name)


@static_style
def concat(x, axis=0, name=None):
    return _C.concat(x, axis, name)


@static_style
def split(x, num_or_sections, axis=0, name=None):
    return _C.split(x, num_or_sections, axis, name)


@static_style
def vsplit(x, num_or_sections, name=None):
    return _C.split(x, num_or_sections, 0, name)


@static_style
def chunk(x, chunks, axis=0, name=None):
    """Equal parts along axis."""
    return _C.split(x, chunks, axis, name)


@static_style
def stack(x, axis=0, name=None):
    return _C.stack(x, axis)


@static_style
def unstack(x, axis=0, num=None):
    """The parts of extent 1 along axis, without it."""
    return _layers.unstack(x, axis, num)


@static_style
def unbind(input, axis=0):
    """unstack under another name."""
    return _layers.unstack(input, axis)


@static_style
def squeeze(x, axis=None, name=None):
    axes = [] if axis is None else [axis] if isinstance(axis, int) else list(axis)
    return _C.squeeze(x, axes, name)


@static_style
def unsqueeze(x, axis, name=None):
    return _C.unsqueeze(x, axis, name)


def _product(extents):
    size = 1
    for extent in extents:
        if extent < 0:
            return -1
        size *= extent
    return size


@static_style
def flatten(x, start_axis=0, stop_axis=-1, name=None):
    """Dimensions start_axis to stop_axis (included) as one."""
    rank = len(x.shape)
    start, stop = start_axis % rank, stop_axis % rank
    if start > stop:
        raise ValueError(f'flatten: start_axis is {start_axis}, behind stop_axis, {stop_axis}')
    dims = list(x.shape)
    shape = [0] * start + [_product(dims[start:stop + 1])] + dims[stop + 1:]
    return _C.reshape(x, shape, name=name)


@static_style
def unflatten(x, axis, shape, name=None):
    """Dimension axis as several."""
    dims, axis = list(x.shape), check_axis('unflatten', axis, x)
    return _C.reshape(x, [0] * axis + list(shape) + dims[axis + 1:], name=name)


@static_style
def moveaxis(x, source, destination, name=None):
    """Dimensions moved to other places; the rest stay in order."""
    rank = len(x.shape)
    source = [source] if isinstance(source, int) else list(source)
    destination = [destination] if isinstance(destination, int) else list(destination)
    if len(source) != len(destination):
        raise ValueError(f'moveaxis: {len(source)} dimensions for {len(destination)} places')
    to = {d % rank: s % rank for s, d in zip(source, destination)}
    rest = iter([i for i in range(rank) if i not in to.values()])
    return _C.transpose(x, [to[i] if i in to else next(rest) for i in range(rank)], name)


def _raised(x, rank):
    """x with dimensions of extent 1 in front."""
    missing = rank - len(x.shape)
    return x if missing <= 0 else _C.unsqueeze(x, list(range(missing)))


def _plus_zeros(x, zeros):
    """x repeated as the shape of zeros wants."""
    if _C.dtype_name(x.dtype) == 'bool':
        return _C.cast(_plus_zeros(_C.cast(x, 'int32'), _C.cast(zeros, 'int32')), 'bool')
    zeros = zeros if zeros.dtype == x.dtype else _C.cast(zeros, x.dtype)
    zeros.stop_gradient = True
    return _C.elementwise('elementwise_add', x, zeros, -1, None, None)


@static_style
def expand(x, shape, name=None):
    """x with extents of 1 repeated: -1 keeps an extent, dimensions may be added in front."""
    if isinstance(shape, _C.Variable):
        return _plus_zeros(x, _C.fill_constant(shape, x.dtype, 0.0))
    shape = list(shape)
    x = _raised(x, len(shape))
    if len(x.shape) != len(shape):
        raise ValueError(f'expand: x has {len(x.shape)} dimensions, and shape {shape} has {len(shape)}')
    times, sure = [], True
    for extent, wanted in zip(x.shape, shape):
        if isinstance(wanted, _C.Variable) or (extent < 0 and wanted not in (-1, 1)):
            sure = False
        elif wanted in (-1, extent):
            times.append(1)
        elif extent == 1:
            times.append(wanted)
        else:
            raise ValueError(f'expand: x has shape {list(x.shape)}, which cannot become {shape}: only extents of 1 '
                             'are repeated')
    if sure:
        return x if all(n == 1 for n in times) else _C.expand(x, times)
    known = [e if not isinstance(w, _C.Variable) and w == -1 else w for e, w in zip(x.shape, shape)]
    if any(not isinstance(w, _C.Variable) and w < 0 for w in known):
        here = _C.shape(x)
        known = [_C.slice(here, [0], [i], [i + 1]) if not isinstance(w, _C.Variable) and w < 0 else w
                 for i, w in enumerate(known)]
    return _plus_zeros(x, _C.fill_constant(known, x.dtype, 0.0))


@static_style
def broadcast_to(x, shape, name=None):
    """expand under another name."""
    return expand(x, shape, name)


@static_style
def expand_as(x, y, name=None):
    """x in the shape of y."""
    if all(extent >= 0 for extent in y.shape):
        return expand(x, list(y.shape), name)
    return _plus_zeros(x, _C.zeros_like(y))


@static_style
def broadcast_tensors(input, name=None):
    """Operands in the shape that all of them together have."""
    total = None
    for x in input:
        zeros = _C.zeros_like(x)
        zeros = _C.cast(zeros, 'int32')
        total = zeros if total is None else _C.elementwise('elementwise_add', total, zeros, -1, None, None)
    return [_plus_zeros(x, total) for x in input]


@static_style
def tile(x, repeat_times, name=None):
    """x laid side by side with itself, as often as repeat_times says for each dimension."""
    if isinstance(repeat_times, _C.Variable):
        return _C.expand(x, repeat_times)
    times = [repeat_times] if isinstance(repeat_times, (int, _C.Variable)) else list(repeat_times)
    x = _raised(x, len(times))
    return _C.expand(x, [1] * (len(x.shape) - len(times)) + times)


@static_style
def flip(x, axis, name=None):
    """The order along dimensions turned round."""
    return _layers.flip(x, [axis] if isinstance(axis, int) else list(axis), name)


@static_style
def reverse(x, axis, name=None):
    """flip under another name."""
    return _layers.flip(x, [axis] if isinstance(axis, int) else list(axis), name)


@static_style
def roll(x, shifts, axis=None, name=None):
    """Elements moved along dimensions; what falls out comes in at the other end."""
    return _layers.roll(x, shifts, axis)


@static_style
def rot90(x, k=1, axes=[0, 1], name=None):
    """Turned by k right angles in the plane of two dimensions."""
    first, second = (check_axis('rot90', axis, x) for axis in axes)
    order = list(range(len(x.shape)))
    order[first], order[second] = second, first
    k = k % 4
    if k == 0:
        return _C.scale(x)
    if k == 2:
        return _layers.flip(x, [first, second])
    return _C.transpose(_layers.flip(x, [second]), order) if k == 1 else _layers.flip(_C.transpose(x, order), [second])


@static_style
def gather(x, index, axis=None, name=None):
    """The slices of x along axis that index names."""
    axis = 0 if axis is None else axis
    if isinstance(axis, _C.Variable):
        raise NotImplementedError('gather: axis as a variable is not built: give a number')
    index = _C.reshape(index, [-1]) if len(index.shape) > 1 else index
    if check_axis('gather', axis, x) == 0:
        return _C.gather(x, index)
    return one('index_select', {'X': x, 'Index': index}, {'dim': axis}, name, 'gather')


@static_style
def gather_nd(x, index, name=None):
    """The slices of x at places of several dimensions."""
    return _layers.gather_nd(x, index, name)


@static_style
def scatter(x, index, updates, overwrite=True, name=None):
    """x with rows replaced; overwrite=False: rows named are zeroed, then all updates are added."""
    return _layers.scatter(x, index, updates, name, overwrite)


@static_style
def scatter_nd(index, updates, shape, name=None):
    """Zeros with updates added at places."""
    return _layers.scatter_nd(index, updates, shape, name)


@static_style
def scatter_nd_add(x, index, updates, name=None):
    """x with updates added at places."""
    return _layers.scatter_nd_add(x, index, updates, name)


@static_style
def slice(input, axes, starts, ends):
    return _C.slice(input, axes, starts, ends)


@static_style
def strided_slice(x, axes, starts, ends, strides, name=None):
    """Every stride-th element from starts to ends."""
    return _layers.strided_slice(x, axes, starts, ends, strides)


@static_style
def crop(x, shape=None, offsets=None, name=None):
    """The part of x that begins at offsets; -1 in shape: to the end."""
    rank = len(x.shape)
    shape = list(x.shape) if shape is None else shape
    offsets = [0] * rank if offsets is None else offsets
    if isinstance(shape, _C.Variable) or isinstance(offsets, _C.Variable):
        raise NotImplementedError('crop by variables is not built: give numbers, or use paddle.slice')
    ends = [2 ** 31 - 1 if extent == -1 else begin + extent for begin, extent in zip(offsets, shape)]
    return _C.slice(x, list(range(rank)), list(offsets), ends)


@static_style
def unique(x, return_index=False, return_inverse=False, return_counts=False, axis=None, dtype='int64', name=None):
    """The values of x, sorted; also where each is first, which of them each element is, and how many there are."""
    wanted = [slot for slot, asked in (('Indices', return_index), ('Index', return_inverse),
                                       ('Counts', return_counts)) if asked]
    outs = _C.apply('unique', {'X': x}, {'return_index': return_index, 'return_inverse': return_inverse,
                                         'return_counts': return_counts, 'axis': [] if axis is None else [axis],
                                         'dtype': int(_C.to_dtype(dtype)), 'is_sorted': True},
                    name, 'unique', out_counts={slot: 1 for slot in wanted}, stop_gradient=True)
    results = tuple(outs[slot][0] for slot in ['Out'] + wanted)
    return results if wanted else results[0]


@static_style
def unique_consecutive(x, return_inverse=False, return_counts=False, axis=None, dtype='int64', name=None):
    """x with equal neighbours made one; also which of them each element is, and how many each was."""
    wanted = [slot for slot, asked in (('Index', return_inverse), ('Counts', return_counts)) if asked]
    outs = _C.apply('unique_consecutive', {'X': x},
                    {'return_inverse': return_inverse, 'return_counts': return_counts,
                     'axis': [] if axis is None else [axis], 'dtype': int(_C.to_dtype(dtype))},
                    name, out_counts={slot: 1 for slot in wanted}, stop_gradient=True)
    results = tuple(outs[slot][0] for slot in ['Out'] + wanted)
    return results if wanted else results[0]


def _to_rows(function, x, axis):
    """x with axis last, as a matrix; and the way back for a matrix of another width."""
    rank, axis = len(x.shape), check_axis(function, axis, x)
    order = [i for i in range(rank) if i != axis] + [axis]
    turned = x if axis == rank - 1 else _C.transpose(x, order)
    rest = [x.shape[i] for i in order[:-1]]
    unknown = sum(extent < 0 for extent in rest)

    def back(matrix, width):
        if unknown > 1:
            raise ValueError(f'{x.name} has shape {list(x.shape)}: one dimension may be unknown')
        out = _C.reshape(matrix, rest + [width]) if rank > 1 else _C.reshape(matrix, [width])
        return out if axis == rank - 1 else _C.transpose(out, [*range(axis), rank - 1, *range(axis, rank - 1)])
    return _C.reshape(turned, [-1, turned.shape[-1]]) if rank != 2 else turned, back


@static_style
def take_along_axis(arr, indices, axis, broadcast=True):
    """Along axis, the elements that indices name; the other extents are those of arr."""
    axis = check_axis('take_along_axis', axis, arr)
    if broadcast:
        indices = _like_but(indices, arr, axis)
    rows, _ = _to_rows('take_along_axis', arr, axis)
    places, back = _to_rows('take_along_axis', indices, axis)
    return back(one('index_sample', {'X': rows, 'Index': places}), indices.shape[axis])


def _like_but(indices, arr, axis):
    """indices repeated to the extents of arr in all dimensions but axis."""
    shape = list(arr.shape)
    shape[axis] = indices.shape[axis]
    if all(a == b for a, b in zip(shape, indices.shape)):
        return indices
    return expand(indices, [-1 if a < 0 and b < 0 else a for a, b in zip(shape, indices.shape)])


def put_flat(values, places, size):
    """[rows, size] zeros, to which row i adds values[i] at places[i]."""
    base = _C.fill_constant_batch_size_like(values, [-1, size], values.dtype, 0.0)
    return _layers.scatter_nd_add(base, _row_and_place(places), values)


def _row_and_place(places):
    """[rows, count, 2]: places with the row of each in front."""
    places = _C.cast(places, 'int64')
    rows = _C.scale(one('cumsum', {'X': _C.ones_like(places)}, {'axis': 0}), 1.0, -1.0)
    return _C.stack([rows, places], 2)


@static_style
def put_along_axis(arr, indices, values, axis, reduce='assign', include_self=True, broadcast=True):
    """arr with elements along axis replaced ('assign'), or with values added to them ('add')."""
    if reduce not in ('assign', 'add'):
        raise NotImplementedError(f"put_along_axis: reduce {reduce!r} is not built: use 'assign' or 'add'")
    if not include_self:
        raise NotImplementedError('put_along_axis: include_self=False is not built: zero the elements first')
    axis = check_axis('put_along_axis', axis, arr)
    if broadcast:
        indices = _like_but(indices, arr, axis)
    if not isinstance(values, _C.Variable):
        values = one('fill_any_like', {'X': indices}, {'value': float(values), 'dtype': int(arr.dtype)})
    elif list(values.shape) != list(indices.shape):
        values = expand_as(values, indices)
    rows, back = _to_rows('put_along_axis', arr, axis)
    places, _ = _to_rows('put_along_axis', indices, axis)
    new, _ = _to_rows('put_along_axis', values, axis)
    where = _row_and_place(places)
    if reduce == 'assign':
        old = one('index_sample', {'X': rows, 'Index': places})
        new = _C.elementwise('elementwise_sub', new, old, -1, None, None)
    return back(_layers.scatter_nd_add(rows, where, new), arr.shape[axis])


@static_style
def index_add(x, index, axis, value, name=None):
    """x with value added to the slices along axis that index names."""
    axis = check_axis('index_add', axis, x)
    order = [axis] + [i for i in range(len(x.shape)) if i != axis]
    turned, new = (v if axis == 0 else _C.transpose(v, order) for v in (x, value))
    out = _layers.scatter_nd_add(turned, _C.unsqueeze(index, [1]), new)
    return out if axis == 0 else _C.transpose(out, [*range(1, axis + 1), 0, *range(axis + 1, len(x.shape))])


@static_style
def index_fill(x, index, axis, value, name=None):
    """x with value in the slices along axis that index names."""
    axis = check_axis('index_fill', axis, x)
    count = x.shape[axis]
    if count < 0:
        raise ValueError(f'index_fill: dimension {axis} of x {list(x.shape)} must be known')
    named = _C.reduce('reduce_sum', _C.one_hot_v2(index, count), [0], False, None)
    named = _C.reshape(named, [count] + [1] * (len(x.shape) - axis - 1))
    return masked_fill(x, _C.compare('greater_than', named, _C.zeros_like(named)), value)


@static_style
def masked_fill(x, mask, value, name=None):
    """x with value where the mask is true."""
    from .search import where
    return where(mask, value, x)


@static_style
def repeat_interleave(x, repeats, axis=None, name=None):
    """Every slice along axis, repeats times in a row; axis None: of x in a row."""
    if axis is None:
        x, axis = _C.reshape(x, [-1]), 0
    axis = check_axis('repeat_interleave', axis, x)
    if isinstance(repeats, _C.Variable):
        # The sums of the repeats say where each slice ends: how many ends lie at or before a place is its slice.
        ends = one('cumsum', {'X': repeats}, {'axis': 0})
        total = _C.slice(ends, [0], [-1], [2 ** 31 - 1])
        places = _layers.range(_C.fill_constant([1], repeats.dtype, 0), total,
                               _C.fill_constant([1], repeats.dtype, 1), repeats.dtype)
        before = _C.compare('less_equal', _C.unsqueeze(ends, [0]), _C.unsqueeze(places, [1]))
        index = _C.reduce('reduce_sum', _C.cast(before, 'int64'), [1], False, None)
        return one('index_select', {'X': x, 'Index': index}, {'dim': axis}, name, 'repeat_interleave')
    times = [1] * (len(x.shape) + 1)
    times[axis + 1] = repeats
    dims = list(x.shape)
    dims[axis] = dims[axis] * repeats if dims[axis] >= 0 else -1
    if sum(extent < 0 for extent in dims) > 1:
        raise ValueError(f'repeat_interleave: {x.name} has shape {list(x.shape)}: one dimension may be unknown')
    return _C.reshape(_C.expand(_C.unsqueeze(x, [axis + 1]), times), dims)


@static_style
def shard_index(input, index_num, nshards, shard_id, ignore_value=-1):
    """The place in its shard of each index of this shard, ignore_value elsewhere."""
    return _layers.shard_index(input, index_num, nshards, shard_id, ignore_value)


def _at_least(rank, inputs, axes_of):
    found = [x if len(x.shape) >= rank else _C.unsqueeze(x, axes_of(len(x.shape))) for x in inputs]
    return found[0] if len(found) == 1 else found


@static_style
def atleast_1d(*inputs, name=None):
    return _at_least(1, inputs, lambda rank: [0])


@static_style
def atleast_2d(*inputs, name=None):
    return _at_least(2, inputs, lambda rank: [0])


@static_style
def atleast_3d(*inputs, name=None):
    return _at_least(3, inputs, lambda rank: [0, 2] if rank == 1 else [2])


@static_style
def view(x, shape_or_dtype, name=None):
    """x with another shape. Bits read as another type are not built: cast makes numbers of that type."""
    if not isinstance(shape_or_dtype, (list, tuple)):
        raise NotImplementedError('view as another type is not built in Trireme: use paddle.cast for its numbers')
    return _C.reshape(x, list(shape_or_dtype), name=name)


@static_style
def view_as(x, other, name=None):
    """x in the shape of other."""
    return _C.reshape(x, list(other.shape))


@static_style
def take(x, index, mode='raise', name=None):
    """The elements of x, taken in a row, that index names."""
    size = _product(x.shape)
    index = _C.cast(index, 'int64')
    if mode == 'wrap' and size > 0:
        index = one('elementwise_mod', {'X': index, 'Y': _C.fill_constant([1], 'int64', size)},
                    {'axis': -1, 'rounds_down': True})
    elif mode == 'clip' and size > 0:
        index = _C.cast(_C.clip(_C.cast(index, 'float64'), 0.0, float(size - 1)), 'int64')
    elif size > 0:
        below = _C.cast(_C.compare('less_than', index, _C.fill_constant([1], 'int64', 0)), 'int64')
        index = _C.elementwise('elementwise_add', index, _C.scale(below, float(size)), -1, None, None)
    found = _C.gather(_C.reshape(x, [-1]), _C.reshape(index, [-1]))
    return _C.reshape(found, list(index.shape))


# In a static program nothing happens in place: these are the same functions, as in 2.4.
reshape_, squeeze_, unsqueeze_, scatter_ = reshape, squeeze, unsqueeze, scatter
