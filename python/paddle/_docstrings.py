"""Docstrings of public names: what docstrings.txt and the op table say of their meaning and arguments, and a sample.

`describe()` puts them where help() looks. Layers that are made from the op table when they are first named
ask for `behind(...)` themselves.
"""
import functools
import inspect
import os
import re
import sys

import _trireme as _C

_FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'docstrings.txt')
_ARGUMENT = re.compile(r'(\w+): (.+)')
_HEADERS = {'fluid': 'import numpy as np\nimport paddle.fluid as fluid\n',
            'paddle': 'import numpy as np\nimport paddle\nfrom paddle import static\n\npaddle.enable_static()\n'}


@functools.lru_cache(maxsize=None)
def entries():
    """name -> (meaning, {argument: text}, sample), and the arguments that mean the same everywhere."""
    with open(_FILE, encoding='utf-8') as file:
        _, *blocks = file.read().split('\n== ')
    found, everywhere = {}, {}
    for block in blocks:
        head, _, body = block.partition('\n')
        meaning, arguments, sample = [], {}, []
        for line in body.split('\n'):
            argument = _ARGUMENT.fullmatch(line)
            if line.startswith(('>>> ', '... ')):
                sample.append(line[4:])
            elif argument:
                arguments[argument[1]] = argument[2]
            elif line:
                meaning.append(line)
        if head == 'arguments':
            everywhere = arguments
        else:
            for name in head.split():
                found[name] = '\n'.join(meaning), arguments, '\n'.join(sample).replace('{}', name)
    return found, everywhere


def sample(name):
    """The whole sample of a name, or ''."""
    text = entries()[0].get(name, ('', {}, ''))[2]
    return _HEADERS[name.partition('.')[0]] + '\n' + text + '\n' if text else ''


def _parameters(thing):
    """Names of what a call takes."""
    from .doctor.names import _parameters_in
    if inspect.isbuiltin(thing):
        return _parameters_in(thing.__doc__ or '') or []
    call = inspect.unwrap(thing.__init__ if inspect.isclass(thing) else thing)
    code = getattr(call, '__code__', None)
    if code is None:
        names = _parameters_in((thing.__init__ if inspect.isclass(thing) else thing).__doc__ or '') or []
    else:
        names = code.co_varnames[:code.co_argcount + code.co_kwonlyargcount]
    return [name for name in names if name != 'self' and not name.startswith('_')]


def arguments(name, thing):
    """(argument, what is said of it or '') for each that a call takes."""
    found, everywhere = entries()
    own = found.get(name, ('', {}, ''))[1]
    op = name.rpartition('.')[2]
    row = _C.op_row(op) if _C.has_op(op) else {'attrs': [], 'inputs': []}
    of_op = {slot['name'].lower(): slot['doc'] for slot in row['inputs']}
    of_op.update((attr['name'], attr['doc']) for attr in row['attrs'])
    if len(row['inputs']) == 1:
        of_op.setdefault('input', row['inputs'][0]['doc'])
        of_op.setdefault('x', row['inputs'][0]['doc'])
    return [(each, own.get(each) or of_op.get(each) or of_op.get(each.replace('_', '')) or everywhere.get(each, ''))
            for each in _parameters(thing)]


def behind(name, thing, has_arguments=False):
    """What follows the docstring that a thing has."""
    meaning, _, own = entries()[0].get(name, ('', {}, ''))
    given = thing.__doc__ or ''
    # The engine's functions begin with their signature, classes of its own may say nothing else.
    says = given.partition('\n')[2].strip() if inspect.isbuiltin(thing) else given.strip()
    parts = [meaning] if meaning and (not says or says.startswith('The op ')) else []
    if not has_arguments:
        lines = [f'    {each}: {text}' for each, text in arguments(name, thing) if text]
        parts += ['Args:\n' + '\n'.join(lines)] if lines else []
    if own:
        parts.append('A sample:\n\n    ' + sample(name).strip().replace('\n', '\n    ').replace('\n    \n', '\n\n'))
    return '\n\n' + '\n\n'.join(parts) + '\n' if parts else ''


def complete(name, thing, has_arguments=False):
    """Adds it."""
    text = behind(name, thing, has_arguments)
    if not text:
        return
    if inspect.isbuiltin(thing):
        _C.add_to_docstring(thing, text)
    else:
        thing.__doc__ = ((thing.__doc__ or '').rstrip() + text).lstrip()


def describe():
    """Every name of the table that its module has by now. One that stands in several modules is described once."""
    done = set()
    for name in entries()[0]:
        module, _, last = name.rpartition('.')
        holder = sys.modules.get('paddle.' + module if module.startswith('fluid') else module)
        thing = vars(holder).get(last) if holder is not None else None
        if thing is None or id(thing) in done:
            continue
        done.add(id(thing))
        complete(name, thing)
    for module in ('static', 'static.nn', 'nn.functional'):
        for thing in vars(sys.modules['paddle.' + module]).values():
            behind_it = inspect.unwrap(thing) if hasattr(thing, '__wrapped__') else None
            if inspect.isbuiltin(behind_it):  # a function of 2.x that is the engine's as it stands
                thing.__doc__ = behind_it.__doc__
