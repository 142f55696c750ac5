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

_CHANGES_THE_PROCESS = {'switch_main_program', 'switch_startup_program', 'set_default_dtype', 'enable_static',
                        'monkey_patch_variable', 'watch', 'set_flags', 'seed', 'switch', 'set_device'}
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
    for what in (Odd(), 'text', -7, array, [array], None, {'a': 1}):
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




@pytest.mark.parametrize('call, kind, words', [
    (lambda x: fluid.layers.fc(x, siez=3), TypeError, ["fc: it has no argument 'siez'", "did you mean 'size'?"]),
    (lambda x: fluid.layers.fc(x, 'ten'), TypeError, ["fc: size must be int, not the str 'ten'"]),
    (lambda x: fluid.layers.fc(x), TypeError, ['fc: size is missing', 'fc(input, size, num_flatten_dims=1']),
    (lambda x: fluid.layers.fc(np.ones((2, 3), 'float32'), 3), TypeError,
     ['fc: input must be a Variable or a list of Variable, not an array float32 [2, 3]']),
    (lambda x: fluid.layers.concat([x, np.ones(3)]), TypeError, ['concat: input must be', 'not a list with']),
    (lambda x: fluid.layers.relu(np.ones(3)), TypeError, ['relu: X must be a Variable', 'fluid.data(...)']),
    (lambda x: fluid.layers.relu(x, naem='a'), TypeError, ["relu: it has no argument 'naem'", "did you mean 'name'?"]),
    (lambda x: fluid.layers.elementwise_add(x, 3), TypeError, ['elementwise_add: y must be a Variable, not int 3']),
    (lambda x: fluid.layers.scale(x, sclae=2.0), TypeError, ["did you mean 'scale'?"]),
    (lambda x: fluid.layers.fcc, AttributeError, ['no layer fcc', 'did you mean fc?']),
    (lambda x: fluid.optimizer.Adma, AttributeError, ["no attribute 'Adma'", 'did you mean Adam']),
    (lambda x: paddle.static.dtaa, AttributeError, ['did you mean data?']),
    (lambda x: fluid.optimizer.SGD(learning_rat=1), TypeError,
     ["SGDOptimizer: it has no argument 'learning_rat'", "did you mean 'learning_rate'?"]),
    (lambda x: fluid.optimizer.SGD(), TypeError, ['SGDOptimizer: learning_rate is missing']),
    (lambda x: fluid.Executor(fluid.CPUPlace()).run(feeds={}), TypeError,
     ["Executor.run: it has no argument 'feeds'", "did you mean 'feed'?"]),
    (lambda x: fluid.io.save_params(None, 4), TypeError,
     ['save_params: dirname must be a str, not int 4', 'save_params(executor, dirname, main_program=None']),
    (lambda x: paddle.batch(None, 3, dropp_last=True), TypeError, ["did you mean 'drop_last'?"]),
    (lambda x: paddle.static.data('y', [3], dtyp='int64'), TypeError, ["data: it has no argument 'dtyp'"]),
    (lambda x: fluid.program_guard(main=fluid.Program()), TypeError, ["program_guard: it has no argument 'main'"]),
    (lambda x: paddle.flatten(3), TypeError, ['flatten: what is given does not fit: x is int 3']),
])
def test_wrong_calls_say_what_and_how(call, kind, words):
    with pytest.raises(kind) as error:
        call(fluid.data('x', [None, 3]))
    text = str(error.value)
    assert all(word in text for word in words), text
    if kind is TypeError:
        assert f'asked for at {__file__}' in text and 'fix: ' in text, text


def test_a_variable_of_another_program():
    with fluid.program_guard(fluid.Program()):
        other = fluid.data('other', [None, 3])
    with pytest.raises(ValueError, match='fc: X is the variable other of another program') as error:
        fluid.layers.fc(other, 3)
    assert 'program_guard()' in str(error.value)
    x = fluid.data('x', [None, 3])
    with fluid.program_guard(fluid.default_main_program().clone(), fluid.Program()):
        fluid.layers.fc(x, 3)  # the clone has a variable of that name, which is meant


def test_the_class_is_named_once():
    with pytest.raises(ValueError) as error:
        fluid.layers.fc(fluid.data('x', [None, 3]), 3, act='rleu')
    assert str(error.value).startswith('fc: there is no activation')


def test_a_data_set_offline_is_one_message(monkeypatch, tmp_path):
    monkeypatch.setattr(paddle.dataset.common, 'DATA_HOME', str(tmp_path))

    def refuse(*_, **__):
        raise OSError('no network')
    monkeypatch.setattr(paddle.dataset.common.urllib.request, 'urlopen', refuse)
    with pytest.raises(RuntimeError, match='cannot be fetched .no network.: put the file') as error:
        next(iter(paddle.dataset.mnist.train()()))
    assert error.value.__cause__ is None and error.value.__suppress_context__
