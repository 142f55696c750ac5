"""Calls everything public with wrong arguments, in a process of its own, and says what raised text of the binding.

    .venv/bin/python tests/python/wrong_calls.py    prints counts, what is left out and why, and what is wrong

Functions and classes; methods of objects of every class that can be made of a few plain arguments, operators
and setters of properties among them; and the engine's own methods on things that are not their object (Python does
not look at the object of its own). The process ends afterwards, so what the calls change (flags, seeds, the default
program) stays in it.
"""
import contextlib
import importlib
import inspect
import io
import json
import os
import pkgutil
import re
import signal
import sys
import tempfile
import types
import urllib.request
import warnings

import numpy as np

import paddle
import paddle.fluid as fluid

# What only the inside of the engine knows.
DUMP = re.compile(r'incompatible (function|constructor) arguments|Unable to cast|Invoked with|_trireme|'
                  r'pybind11|std::|trireme::|<locals>')
LEFT_OUT = {'paddle.distributed.launch.main': 'starts processes',
            'paddle.distributed.launch_ps.main': 'starts processes',
            'paddle.fluid.reader.Channel().get': 'waits for another thread'}
_SECONDS = 20  # a call that takes longer waits for something
# Python's own: what every object has, or what comes from a base class of its library.
_OF_PYTHON = {'builtins', 'enum', 'abc', 'threading', 'argparse', 'logging', 'collections', 'pybind11_builtins'}
_OF_OBJECTS = set(dir(object)) - {'__init__', '__eq__', '__ne__', '__lt__', '__le__', '__gt__', '__ge__'}


class Odd:
    """Something that no function wants."""


def wrong_calls():
    array = np.zeros((2, 3), 'float32')
    yield 'an unknown keyword', (), {'no_such_argument': 1}
    yield 'nothing', (), {}
    for what in (Odd(), 'text', -7, array, [array], None, {'a': 1}):
        for count in (1, 2, 3):
            yield f'{count} of {type(what).__name__}', (what,) * count, {}


def modules():
    """Every public module of the package, those that nothing imports among them."""
    for found in pkgutil.walk_packages(paddle.__path__, 'paddle.'):
        if not re.search(r'\._', found.name):
            importlib.import_module(found.name)
    return {name: module for name, module in sorted(sys.modules.items())
            if re.fullmatch(r'paddle(\.(?!_)\w+)*', name) and inspect.ismodule(module)}


def functions():
    """name -> what is called, each once."""
    found, seen = {}, set()
    for module_name, module in modules().items():
        for name in sorted(set(dir(module))):
            if name.startswith('_'):
                continue
            try:
                thing = getattr(module, name)
            except (AttributeError, NotImplementedError):
                continue
            home = getattr(thing, '__module__', None) or ''
            if not callable(thing) or not home.startswith(('paddle', '_trireme')) or id(thing) in seen:
                continue
            if isinstance(thing, type) and issubclass(thing, BaseException):
                continue
            seen.add(id(thing))
            found[f'{module_name}.{name}'] = thing
    return found


def members(cls):
    """name -> the class's own entry, of what the package defines in it or in a class that it is made from."""
    for name in sorted(set(dir(cls)) - _OF_OBJECTS):
        homes = [base for base in cls.__mro__ if name in vars(base)]
        if homes and homes[0].__module__ not in _OF_PYTHON:
            yield name, homes[0], vars(homes[0])[name]


def methods_of_classes(classes):
    """The engine's, each once, as a function that wants its object first."""
    found, seen = {}, set()
    for class_name, cls in classes.items():
        for name, home, entry in members(cls):
            method = getattr(cls, name, None)
            if isinstance(entry, (types.FunctionType, staticmethod, classmethod)):
                continue
            if callable(method) and not isinstance(method, type) and (home, name) not in seen:
                seen.add((home, name))
                found[f'{class_name}.{name}'] = method
    return found


def arguments():
    """What objects are made of."""
    x, program = fluid.data('x', [None, 3]), fluid.Program()
    for given in ((), (2,), (0.1,), (2, 3), (0.1, 0.9), (2, 3, 3), ([2, 3],), (x,), (x, x), ('a',), (program,), (4, 2, 2),
                  (np.ones((2, 2)),), ([x],), (program.global_block(), 'relu'), ([1, 2], [0.1, 0.2, 0.3]),
                  (0.1, 1, 2), (0.1, [1]), (fluid.CPUPlace(),), ([x], fluid.CPUPlace()), (fluid.optimizer.SGD(0.1),)):
        yield given


def by_hand():
    """Objects that functions make."""
    x, program = fluid.data('x', [None, 3]), fluid.Program()
    made = [x, x > x, program, program.global_block(), fluid.layers.relu(x).op, fluid.core.VarType.FP32,
            fluid.BuildStrategy.ReduceStrategy.Reduce, fluid.BuildStrategy.GradientScaleStrategy.One,
            fluid.create_lod_tensor(np.ones((2, 2), 'float32'), [[2]], fluid.CPUPlace()),
            fluid.io.DataLoader.from_generator([x], 4)]
    return {type(each): each for each in made}


def made_of_something(cls):
    for given in arguments():
        try:
            return cls(*given)
        except Exception:
            continue
    return None


def is_refused(cls):
    """Whether it is there only to say that it is not built: there are no objects of it."""
    try:
        cls()
    except NotImplementedError:
        return True
    except Exception:
        pass
    return False


def objects_of(classes, out):
    """(name of the class, an object)."""
    hand = by_hand()
    names = {cls: name for name, cls in classes.items()}
    for cls, thing in hand.items():
        yield names.get(cls, cls.__qualname__), thing
    for name, cls in classes.items():
        if cls not in hand:
            thing = made_of_something(cls)
            if thing is not None:
                yield name, thing
            elif not is_refused(cls):
                out['no object'].append(name)


def methods_of_objects(classes, out):
    found = {}
    for class_name, thing in objects_of(classes, out):
        for name, _, entry in members(type(thing)):
            if isinstance(entry, property):
                if entry.fset is not None:
                    found[f'setting {class_name}.{name}'] = (
                        lambda *args, thing=thing, name=name, **_: setattr(thing, name, *args))
                continue
            try:
                method = getattr(thing, name)
            except Exception:
                continue
            if callable(method) and not isinstance(method, type):
                found[f'{class_name}().{name}'] = method
    return found


def problem_of(thing, args, kwargs):
    """The text of what is raised, all that is chained to it included; None where nothing is."""
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.scope_guard(fluid.Scope()), \
            contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        try:
            thing(*args, **kwargs)
        except (Exception, SystemExit) as error:
            texts = []
            while error is not None:
                texts.append(f'{type(error).__name__}: {error}')
                error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
            return '\n'.join(texts)
    return None


def count(kind, things, out):
    """Calls all of them wrongly."""
    calls, errors = 0, 0
    for name, thing in things.items():
        if name in LEFT_OUT:
            continue
        for what, args, kwargs in wrong_calls():
            if name.startswith('setting ') and len(args) != 1:
                continue
            print(f'{name} with {what}', file=sys.__stderr__, flush=True)
            signal.alarm(_SECONDS)
            text = problem_of(thing, args, kwargs)
            signal.alarm(0)
            calls, errors = calls + 1, errors + (text is not None)
            if text and DUMP.search(text):
                out['dumps'].append(f'{name} with {what}: {text[:400]}')
    out['counts'][kind] = {'called': len(things) - len(LEFT_OUT.keys() & things.keys()), 'calls': calls,
                           'errors': errors}


class Waits(BaseException):
    """A call that does not end."""


def _waits(*_):
    raise Waits


def _no_network(*_, **__):
    raise OSError('no network')


def main():
    warnings.simplefilter('ignore')
    urllib.request.urlopen = _no_network
    signal.signal(signal.SIGALRM, _waits)
    sys.argv = ['wrong_calls']
    out = {'counts': {}, 'left out': LEFT_OUT, 'no object': [], 'dumps': []}
    found = functions()
    classes = {name: thing for name, thing in found.items() if isinstance(thing, type)}
    count('functions and classes', found, out)
    count('methods', methods_of_classes(classes), out)
    count('methods of objects', methods_of_objects(classes, out), out)
    print(json.dumps(out, indent=1))


if __name__ == '__main__':
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        main()
