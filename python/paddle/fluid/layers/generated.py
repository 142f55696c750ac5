"""Layer functions that only forward: made from the op table, one per op that has no other layer."""
import keyword

import numpy

import _trireme as _C

from ... import _docstrings


def _argument(slot):
    """X -> x, BatchSize -> batch_size."""
    text = ''.join(('_' if i and c.isupper() and not slot[i - 1].isupper() else '') + c.lower()
                   for i, c in enumerate(slot))
    return text + '_' if keyword.iskeyword(text) else text


def _signature(row):
    slots = sorted(row['inputs'], key=lambda slot: slot['dispensable'])
    required = [attr for attr in row['attrs'] if attr['required']]
    optional = [attr for attr in row['attrs'] if not attr['required']]
    taken = {_argument(slot['name']) for slot in slots}
    taken |= {'name'} | set(keyword.kwlist)
    names = {attr['name']: attr['name'] + ('_' if attr['name'] in taken else '')
             for attr in row['attrs']}
    return slots, required, optional, names


def _default(attr):
    """float attributes are 32 bits wide: 0.02 is meant, not 0.0199999995."""
    value = attr['default']
    return float(str(numpy.float32(value))) if attr['type'] == 'float' else value


def _documentation(row, slots, names):
    lines = [row['doc'] or f"The op {row['type']}.", '', 'Args:']
    lines += [f"    {_argument(slot['name'])}: {slot['doc']}" for slot in slots]
    lines += [f"    {names[attr['name']]} ({attr['type']}): {attr['doc']}" for attr in row['attrs']]
    lines += [f"    name: {_docstrings.entries()[1]['name']}", 'Returns:'] + [f"    {out['name']}: {out['doc']}" for out in row['outputs']
                             if not out['intermediate']]
    return '\n'.join(lines)


def forwards(op_type):
    """Whether a layer can be made of this op: gradients and what Python cannot name have none."""
    if not _C.has_op(op_type) or not op_type.isidentifier() or keyword.iskeyword(op_type):
        return False
    row = _C.op_row(op_type)
    return not row['is_grad'] and all('@' not in slot['name'] for slot in row['inputs'])


def make_layer(op_type, name=None):
    """The function of an op: its inputs, then its attributes, then name."""
    row = _C.op_row(op_type)
    slots, required, optional, names = _signature(row)
    wanted = [out['name'] for out in row['outputs'] if not out['intermediate'] and not out['dispensable']]
    defaults = {f'_d{i}': _default(attr) for i, attr in enumerate(optional)}
    parameters = [_argument(s['name']) + ('=None' if s['dispensable'] else '') for s in slots
                  if not s['dispensable']]
    parameters += [names[attr['name']] for attr in required]
    parameters += [_argument(s['name']) + '=None' for s in slots if s['dispensable']]
    parameters += [f"{names[attr['name']]}=_d{i}" for i, attr in enumerate(optional)]
    inputs = ', '.join(f"{s['name']!r}: {_argument(s['name'])}" for s in slots)
    attrs = ', '.join(f"{attr['name']!r}: {names[attr['name']]}" for attr in row['attrs'])
    source = (f"def {name or op_type}({', '.join(parameters + ['name=None'])}):\n"
              f'    return _call({{{inputs}}}, {{{attrs}}}, name)\n')

    def call(inputs, attrs, layer_name):
        outs = _C.apply(op_type, inputs, attrs, layer_name, name or op_type)
        results = [outs[slot] for slot in wanted if slot in outs]
        results = [vars[0] if len(vars) == 1 else vars for vars in results]
        return results[0] if len(results) == 1 else tuple(results)

    scope = dict(defaults, _call=call)
    # A real signature: positional arguments, help() and errors as for any def. Its file is one of
    # the package's, so that the user's line is the call's.
    exec(compile(source, __file__, 'exec'), scope)
    function = scope[name or op_type]
    function.__doc__ = _documentation(row, slots, names)
    function.__module__ = __name__
    _docstrings.complete('fluid.layers.' + (name or op_type), function, has_arguments=True)
    return function
