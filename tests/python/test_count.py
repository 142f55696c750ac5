"""The counts in README.md, docs/names.md and docs/api.md are those that tools/count.py finds."""
import importlib.util
import os
import re

import pytest

import paddle
import paddle.fluid as fluid
from paddle.doctor.names import only_raises

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_spec = importlib.util.spec_from_file_location('count', os.path.join(ROOT, 'tools', 'count.py'))
count = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(count)

README = open(os.path.join(ROOT, 'README.md')).read()
WRITE = 'make counts writes it'


@pytest.fixture(scope='module')
def missing():
    return count.missing_names()


def test_the_readme_says_what_is_counted(missing):
    assert count.in_readme(README)[1].strip() == count.tables(missing).strip(), WRITE


def test_the_page_of_names_is_what_is_counted(missing):
    assert open(os.path.join(ROOT, 'docs', 'names.md')).read() == count.names_page(missing), WRITE


def test_the_index_of_names_is_what_is_counted(missing):
    assert open(os.path.join(ROOT, 'docs', 'api.md')).read() == count.api_page(missing), WRITE


def test_every_gradient_is_checked():
    table = dict(re.findall(r'^\| (.*) \| (\d+) \|$', count.in_readme(README)[1], re.M))
    alone, inside = (int(number) for text, number in table.items() if text.startswith('...'))
    assert alone + inside == int(table['operators with a gradient'])


def test_the_lists_are_the_originals():
    """As many names as the originals gave."""
    sizes = {key: len(names) for key, names in count.public_names().items()}
    assert sizes['1.8.5', 'paddle.fluid.layers'] == 355 and sizes['1.8.5', 'paddle.fluid.optimizer'] == 28
    assert sizes['2.6.2', 'paddle'] == 378 and sizes['2.6.2', 'paddle.nn.functional'] == 118
    assert all(len(set(names)) == len(names) for names in count.public_names().values())


def test_what_is_not_there_does_not_count():
    assert not count.served('paddle.fluid.layers', 'no_such_layer')
    assert not count.served('paddle.fluid.no_such_module', 'fc')
    assert not count.served('paddle.nn', 'RNNTLoss')


@pytest.mark.parametrize('module, name', [
    ('paddle.fluid.optimizer', 'DGCMomentumOptimizer'),
    ('paddle.optimizer', 'LBFGS'), ('paddle.fluid', 'enable_dygraph'), ('paddle', 'grad'),
    ('paddle.fluid.dygraph', 'guard'), ('paddle.fluid.dygraph', 'Linear')])
def test_what_always_raises_does_not_count(module, name):
    assert not count.served(module, name)


@pytest.mark.parametrize('thing', [fluid.layers.fc, fluid.layers.relu, fluid.layers.While, fluid.optimizer.SGD,
                                   fluid.program_guard, paddle.optimizer.Adam, fluid.disable_dygraph])
def test_what_can_return_counts(thing):
    assert not only_raises(thing)


@pytest.mark.parametrize('act', ['relu', 'leaky_relu', 'sigmoid', 'softmax', 'tanh'])
def test_a_layer_takes_an_activation_by_name(act):
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        assert fluid.layers.fc(fluid.data('x', [None, 2]), 2, act=act).op.type == act


@pytest.mark.parametrize('name', ['ConditionalBlock', 'ListenAndServ', 'Recv', 'Send', '_allreduce', 'inplace_abn'])
def test_layers_that_old_programs_call_beside_the_public_ones(name):
    assert count.served('paddle.fluid.layers', name)


def test_the_readme_names_every_program_of_the_examples():
    folder = os.path.join(ROOT, 'examples', 'fluid')
    programs = [name for name in os.listdir(folder) if name.endswith('.py')
                and '__main__' in open(os.path.join(folder, name)).read()]
    assert len(programs) >= 9
    assert [name for name in programs if '`%s`' % name not in README] == []


def test_the_documents_agree_on_the_operators():
    run, cannot = count.operators()
    page = open(os.path.join(ROOT, 'docs', 'ops.md')).read()
    assert 'defines %d operators that run and %d more' % (len(run), len(cannot)) in page
    assert len(re.findall('^## ', page, re.M)) == len(run) + len(cannot)
    assert page.count('\nCannot run yet.\n') == len(cannot)


def test_the_binding_defines_each_name_once():
    folder = os.path.join(ROOT, 'python', 'binding')
    defined = [name for file in sorted(os.listdir(folder)) if file.endswith('.cc')
               for name in re.findall(r'\bm\.def\(\s*"(\w+)"', open(os.path.join(folder, file)).read())]
    assert len(defined) > 100
    assert [name for name in set(defined) if defined.count(name) > 1] == []
