"""Every layer that tools/names.txt lists is there, and is defined once."""
import importlib.util
import os
import re

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_spec = importlib.util.spec_from_file_location('count', os.path.join(ROOT, 'tools', 'count.py'))
count = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(count)


@pytest.mark.parametrize('name', count.names())
def test_is_there(name):
    assert count.there(name)


def test_the_list_is_whole():
    names = count.names()
    assert len(names) == len(set(names)) == 135


def test_the_count_prints_what_is_there(capsys):
    assert count.main() == 0
    assert 'layers: 135 of 135' in capsys.readouterr().out


def test_names_that_do_not_exist_are_not_counted():
    assert not count.there('paddle.fluid.layers.no_such_layer')
    assert not count.there('paddle.fluid.contrib.layers.no_such_layer')


def test_the_binding_defines_each_name_once():
    folder = os.path.join(ROOT, 'python', 'binding')
    defined = [name for file in sorted(os.listdir(folder)) if file.endswith('.cc')
               for name in re.findall(r'\bm\.def\(\s*"(\w+)"', open(os.path.join(folder, file)).read())]
    assert len(defined) > 100
    assert [name for name in set(defined) if defined.count(name) > 1] == []
