"""Wrong calls of everything public say what, where and how to fix it, in words of the package: no text of the
binding reaches users."""
import json
import os
import subprocess
import sys

import numpy as np
import pytest

import paddle
import paddle.fluid as fluid

HERE = os.path.dirname(os.path.abspath(__file__))


def test_no_call_gets_text_of_the_binding():
    ran = subprocess.run([sys.executable, os.path.join(HERE, 'wrong_calls.py')], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr[-2000:]
    out = json.loads(ran.stdout)
    counts = out['counts']
    for kind, count in counts.items():
        print('%s: %d called, in %d ways that are wrong; %d are errors'
              % (kind, count['called'], count['calls'], count['errors']))
    print('%d classes that are built and of which nothing plain makes an object: their methods are not called' % len(out['no object']))
    assert len(out['no object']) < 65
    print('left out: ' + ', '.join('%s (%s)' % item for item in out['left out'].items()))
    assert counts['functions and classes']['called'] > 1600 and counts['methods']['called'] > 200
    assert counts['methods of objects']['called'] > 7000
    assert sum(count['errors'] for count in counts.values()) > 180000
    dumps = out['dumps']
    assert not dumps, f'{len(dumps)}:\n' + '\n'.join(dumps[:40])


@pytest.mark.parametrize('call, words', [
    (lambda x: x + object(), ['elementwise_add: it takes a Variable or a number beside x, not an object',
                              'layers.assign(array)']),
    (lambda x: object() - x, ['elementwise_sub: it takes a Variable or a number beside x']),
    (lambda x: np.ones(3, 'float32') * x, ['not an array float32 [3]']),
    (lambda x: x / 'text', ["not the str 'text'"]),
    (lambda x: x ** None, ['elementwise_pow', 'not None']),
    (lambda x: x // [1], ['elementwise_floordiv', 'not the list [1]']),
    (lambda x: x < None, ['less_than', 'not None']),
    (lambda x: x.__add__(), ['__add__']),
    (lambda x: fluid.BuildStrategy.ReduceStrategy('Reduce'), ["value must be int, not the str 'Reduce'"]),
    (lambda x: fluid.BuildStrategy.GradientScaleStrategy(), ['value is missing']),
    (lambda x: fluid.Program.global_block(None), ['it is a method of', 'is called on None']),
])
def test_operators_enumerations_and_methods_say_it_too(call, words):
    with pytest.raises(TypeError) as error:
        call(fluid.data('x', [None, 3]))
    text = str(error.value)
    assert all(word in text for word in words), text


def test_an_operand_that_knows_variables_is_asked():
    class Mine:
        def __radd__(self, other):
            return 'mine beside ' + other.name

        def __gt__(self, other):
            return 'greater'
    x = fluid.data('x', [None, 3])
    assert x + Mine() == 'mine beside x' and (x < Mine()) == 'greater'
    assert x != object() and not x == object() and x not in [object()]


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
