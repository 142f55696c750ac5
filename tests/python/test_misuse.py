"""Wrong calls of every public function and class say what, where and how to fix it, in words of the
package: no text of the binding reaches users."""
import inspect
import io
import re
import sys
import contextlib

import numpy as np
import pytest

import paddle
import paddle.fluid as fluid

# What only the inside of the engine knows.
_DUMP = re.compile(r'incompatible (function|constructor) arguments|Unable to cast|Invoked with|_trireme|'
                   r'pybind11|std::|trireme::|<locals>')
# Calls that wait for the world, or change the process for the tests that follow.
_LEFT_OUT = {'paddle.dataset.common.fetch_all', 'paddle.dataset.fetch_all'}


def modules():
    return {name: module for name, module in sorted(sys.modules.items())
            if re.fullmatch(r'paddle(\.(fluid|static|optimizer|nn|tensor|reader|batch|regularizer|device)'
                            r'(\.(?!_)\w+)*)?', name) and inspect.ismodule(module)}


def public():
    """name -> what is called, each once."""
    found, seen = {}, set()
    for module_name, module in modules().items():
        for name in sorted(set(dir(module))):
            if name.startswith('_') or f'{module_name}.{name}' in _LEFT_OUT:
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


class Odd:
    """Something that no function wants."""


def wrong_calls():
    array = np.zeros((2, 3), 'float32')
    yield 'an unknown keyword', (), {'no_such_argument': 1}
    yield 'nothing', (), {}
    for what in (Odd(), 'text', 3, array, [array], None, {'a': 1}):
        for count in (1, 2, 3):
            yield f'{count} of {type(what).__name__}', (what,) * count, {}


def problem_of(thing, args, kwargs):
    """The text of what is raised, all that is chained to it included; None where nothing is."""
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.scope_guard(fluid.Scope()), \
            contextlib.redirect_stdout(io.StringIO()):
        try:
            thing(*args, **kwargs)
        except Exception as error:
            texts = []
            while error is not None:
                texts.append(f'{type(error).__name__}: {error}')
                error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
            return '\n'.join(texts)
    return None


@pytest.mark.filterwarnings('ignore')
def test_no_call_gets_text_of_the_binding(tmp_path, monkeypatch, environment):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(paddle.dataset.common, '_SECONDS_TO_CONNECT', 0.01)
    things, dumps, errors = public(), [], 0
    flags = {}
    for name, thing in things.items():
        if name.rpartition('.')[2] in _CHANGES_THE_PROCESS:
            continue
        for what, args, kwargs in wrong_calls():
            text = problem_of(thing, args, kwargs)
            errors += text is not None
            if text and _DUMP.search(text):
                dumps.append(f'{name} with {what}: {text[:400]}')
    assert len(things) > 400 and errors > 5000
    assert not dumps, f'{len(dumps)} of {errors}:\n' + '\n'.join(dumps[:40])
    assert not flags


_CHANGES_THE_PROCESS = {'switch_main_program', 'switch_startup_program', 'set_default_dtype',
                        'enable_static', 'monkey_patch_variable', 'watch'}
