"""What keeps the house in order: the checks of tools/ find what they are for, and papers say what the code says."""
import pathlib
import re
import subprocess
import sys

import pytest

import _trireme as _C

ROOT = pathlib.Path(__file__).resolve().parents[2]


def checked(tool, *arguments):
    done = subprocess.run([sys.executable, ROOT / 'tools' / tool, *arguments], cwd=ROOT, text=True,
                          capture_output=True)
    return done.returncode, done.stdout


def source(folder, name, text):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


LONG = '  x += 1;\n' * 120


@pytest.mark.parametrize('head', ['int f(int x) {', 'Kernel::Kernel(int x)\n    : a(x), b{x} {',
                                  'template <class T>\nauto g(T x) -> int {'])
def test_a_long_function_is_found(tmp_path, head):
    text = '// For a test.\nnamespace {\nstruct Kernel { int a{0}; };\n' + head + '\n' + LONG + '}\n}\n'
    code, said = checked('check_sources.py', source(tmp_path, 'long.cc', text))
    assert code == 1 and 'a function of 12' in said, said


@pytest.mark.parametrize('head', ['// A table: of numbers.\nint f(int x) {',
                                  'void register_rows(Registry& ops) {'])
def test_a_table_may_be_long(tmp_path, head):
    text = '// For a test.\n' + head + '\n' + LONG + '}\n'
    code, said = checked('check_sources.py', source(tmp_path, 'table.cc', text))
    assert code == 0, said


def test_functions_one_after_another_are_not_one(tmp_path):
    text = '// For a test.\n' + ('int f(int x) {\n' + '  // }\n  x += "{"[0];\n' * 30 + '}\n') * 3
    code, said = checked('check_sources.py', source(tmp_path, 'short.cc', text))
    assert code == 0, said


def test_a_long_python_function_is_found(tmp_path):
    text = '"""For a test."""\ndef f(x):\n' + '    x += 1\n' * 120
    code, said = checked('check_sources.py', source(tmp_path, 'long.py', text))
    assert code == 1 and 'long.py:2: a function of 121 lines' in said, said


@pytest.mark.parametrize('name,text', [('a.cc', '#include <map>\n'), ('b.py', 'import os\n'),
                                       ('c.sh', '#!/bin/sh\nset -e\n')])
def test_a_first_line_that_says_nothing_is_found(tmp_path, name, text):
    code, said = checked('check_sources.py', source(tmp_path, name, text))
    assert code == 1 and 'does not say what the file is for' in said, said


def test_nobody_includes_the_kernels_of_a_device(tmp_path):
    source(tmp_path, 'ops/conv.cc', '#include "cpu/gemm.h"\n#include "cpu/kernels/conv.h"\n')
    source(tmp_path, 'cpu/kernels/conv.h', '#include "ops/conv.h"\n#include "cpu/gemm.h"\n')
    source(tmp_path, 'cpu/gemm.cc', '#include "ops/conv.h"\n')
    code, said = checked('check_includes.py', str(tmp_path))
    assert code == 1, said
    assert re.findall(r'^(\S+): ', said, re.M) == ['cpu/gemm.cc:1', 'ops/conv.cc:2', 'includes'], said


def test_the_picture_of_the_rooms_is_that_of_the_sources():
    code, said = checked('draw_rooms.py')
    assert code == 0 and said == (ROOT / 'docs' / 'rooms.svg').read_text(), 'run make docs'


def test_the_changelog_begins_with_this_version():
    newest = re.search(r'^## (\S+)', (ROOT / 'CHANGELOG.md').read_text(), re.M).group(1)
    assert newest == _C.version
