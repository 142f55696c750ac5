"""What a dotted name of the package stands for, and whether it is of use: it is there and can do more than raise."""
import dis
import difflib
import importlib
import inspect
import re

_WAYS_OUT = ('RETURN_VALUE', 'RETURN_CONST', 'YIELD_VALUE')


def named(name):
    """What a dotted name stands for: modules as far as they go, attributes from there."""
    parts = name.split('.')
    thing = importlib.import_module(parts[0])
    for i, part in enumerate(parts[1:], 2):
        try:
            thing = getattr(thing, part)
        except AttributeError:
            if not inspect.ismodule(thing):
                raise
            thing = importlib.import_module('.'.join(parts[:i]))
    return thing


def only_raises(thing):
    """Whether a call can do nothing but raise: its code has no way to return."""
    call = inspect.unwrap(thing.__init__ if inspect.isclass(thing) else thing)
    code = getattr(call, '__code__', None)
    return code is not None and not any(step.opname in _WAYS_OUT for step in dis.get_instructions(code))


def is_of_use(thing):
    return not (callable(thing) and only_raises(thing))


def what_it_raises(thing):
    """The text of what a call that can only raise says; it gets None for everything it must be given."""
    call = thing.__init__ if inspect.isclass(thing) else thing
    needed = [p for p in inspect.signature(call).parameters.values()
              if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    try:
        call(*[None] * len(needed))
    except Exception as error:
        return str(error)
    return ''


def parameters(thing):
    """(names of a call's parameters, how many may be given by place); None: any, or it does not say."""
    call = thing.__init__ if inspect.isclass(thing) else thing
    try:
        listed = list(inspect.signature(call).parameters.values())
    except (ValueError, TypeError):
        return _parameters_in(call.__doc__ or '')
    if any(p.kind in (p.VAR_KEYWORD, p.VAR_POSITIONAL) for p in listed):
        return None
    names = [p.name for p in listed]
    return names[1:] if inspect.isclass(thing) else names


def _parameters_in(doc):
    """Those of a function of the engine, whose docstring begins with its signature."""
    opened = re.match(r'\w+\(', doc)
    if not opened or 'Overloaded function' in doc or '*args' in doc:
        return None
    names, depth, part = [], 0, ''
    for letter in doc[opened.end():]:
        if letter == ')' and depth == 0:
            break
        depth += (letter in '([{') - (letter in ')]}')
        if letter == ',' and depth == 0:
            names.append(part)
            part = ''
        else:
            part += letter
    names = [name.partition(':')[0].partition('=')[0].strip() for name in [*names, part] if name.strip()]
    return names[1:] if names[:1] == ['self'] else names


def near(name, thing):
    """What is like a name that a module or class does not have."""
    found = difflib.get_close_matches(name, [other for other in dir(thing) if not other.startswith('_')], 2, 0.75)
    return ' or '.join(found)
