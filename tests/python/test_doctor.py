"""The doctor: what it finds in scripts and model files, without running them."""
import ast
import os
import subprocess
import sys

import pytest

import paddle.fluid as fluid
from paddle.doctor import check_model, check_script, models
from paddle.doctor.__main__ import main

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def found(*lines):
    return [(finding.line, finding.kind, finding.name) for finding in check_script('\n'.join(lines))]


def test_nothing_is_found_in_a_script_that_works():
    assert found('import paddle.fluid as fluid', 'from paddle.fluid import layers as L', 'x = fluid.data("x", [None, 3])',
                 'y = L.fc(input=x, size=2, act="relu")', 'fluid.optimizer.Adam(learning_rate=0.1).minimize(y)') == []


EXAMPLES = [os.path.join(ROOT, 'examples', folder, name) for folder in ('fluid', 'static', 'detection')
            for name in sorted(os.listdir(os.path.join(ROOT, 'examples', folder))) if name.endswith('.py')]


@pytest.mark.parametrize('path', EXAMPLES, ids=os.path.basename)
def test_nothing_stops_the_examples(path):
    assert [str(finding) for finding in check_script(open(path).read(), path) if finding.stops] == []


def spoiled(path):
    """(line, kind, the script with one name or keyword of the package misspelt) for each different one in a script."""
    text = open(path).read()
    lines, tree, seen = text.split('\n'), ast.parse(text), set()
    roots = {item.asname or item.name.partition('.')[0] for node in ast.walk(tree) if isinstance(node, ast.Import)
             for item in node.names if item.name.startswith('paddle')}
    roots |= {item.asname or item.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)
              and (node.module or '').startswith('paddle') for item in node.names}

    def changed(row, column, old):
        line = lines[row - 1]
        assert line[column:].startswith(old), (line, old)
        return '\n'.join([*lines[:row - 1], line[:column] + old + '_no' + line[column + len(old):], *lines[row:]])
    for node in ast.walk(tree):
        said = ast.unparse(node.func) if isinstance(node, ast.Call) else ''
        if not said or said.partition('.')[0] not in roots or '(' in said:
            continue
        if isinstance(node.func, ast.Attribute) and said not in seen:
            seen.add(said)
            row, end = node.func.end_lineno, node.func.end_col_offset
            yield row, 'missing', changed(row, end - len(node.func.attr), node.func.attr)
        for keyword in node.keywords:
            if keyword.arg and (said, keyword.arg) not in seen:
                seen.add((said, keyword.arg))
                yield node.lineno, 'argument', changed(keyword.lineno, keyword.col_offset, keyword.arg)


@pytest.mark.parametrize('path', [path for path in EXAMPLES if 'fluid' not in path], ids=os.path.basename)
def test_every_gap_in_an_example_is_named_with_its_line(path):
    gaps, missed = 0, []
    for line, kind, script in spoiled(path):
        findings = [finding for finding in check_script(script) if finding.kind == kind and finding.line == line]
        gaps += 1
        if not findings or kind == 'argument' and not findings[0].way_out.startswith('it takes'):
            missed.append(script.split('\n')[line - 1].strip())
    assert gaps >= 3 and not missed, missed


@pytest.mark.parametrize('lines, name', [
    (['exe = fluid.Executor(fluid.CPUPlace())', 'exe.runn()'], 'Executor.runn'),
    (['exe = fluid.Executor(fluid.CPUPlace())', 'exe.run(feeds={})'], 'Executor.run(feeds)'),
    (['main = fluid.default_main_program()', 'main.clone(for_testing=True)'], 'Program.clone(for_testing)'),
    (['adam = fluid.optimizer.Adam(0.1)', 'adam.minimise(1)'], 'AdamOptimizer.minimise'),
    (['x = fluid.layers.fc(1, 2)', 'x.no_such()'], 'Variable.no_such')])
def test_methods_of_objects_that_the_package_made_are_read(lines, name):
    finding, = check_script('\n'.join(['import paddle.fluid as fluid'] + lines))
    assert (finding.line, finding.name) == (3, name)


@pytest.mark.parametrize('lines', [
    ['def f(exe):', '    exe.runn()', 'exe = fluid.Executor()'],
    ['exe = fluid.Executor()', 'def f(exe):', '    exe.runn()'],
    ['for exe in [fluid.Executor()]:', '    exe.runn()'],
    ['exe = fluid.Executor()', 'exe, other = 1, 2', 'exe.runn()'],
    ['exe = fluid.Executor()', 'exe = object()', 'exe.runn()'],
    ['metric = fluid.metrics.Accuracy()', 'metric.own = 1', 'metric.value + metric.weight']])
def test_other_objects_are_left_alone(lines):
    assert found('import paddle.fluid as fluid', *lines) == []


@pytest.mark.parametrize('lines, wanted', [
    (['import paddle.fluid as F', 'F.layers.fcc(1, 2)'], (2, 'missing', 'paddle.fluid.layers.fcc')),
    (['from paddle.fluid.layers import fcc'], (1, 'missing', 'paddle.fluid.layers.fcc')),
    (['from paddle import fluid', 'L = fluid.layers', 'L.fcc(1)'], (3, 'missing', 'paddle.fluid.layers.fcc')),
    (['import paddle.fluid.no_such as no'], (1, 'missing', 'paddle.fluid.no_such')),
    (['import paddle', 'def f():', '    paddle.grad(1, 2)'], (3, 'refused', 'paddle.grad')),
    (['from paddle.fluid.dygraph import Layer', 'class Net(Layer):', '    pass', 'Layer()'],
     (4, 'refused', 'paddle.fluid.dygraph.Layer')),
    (['import paddle.fluid as fluid', 'fluid.layers.fc(1, size=2, sise=3)'],
     (2, 'argument', 'paddle.fluid.layers.fc(sise)')),
    (['import paddle.fluid as fluid', 'fluid.layers.relu(1, 2, 3, 4)'], (2, 'argument', 'paddle.fluid.layers.relu')),
    (['import paddle.fluid as fluid', 'fluid.CUDAPlace(0)'], (2, 'refused', 'paddle.fluid.CUDAPlace')),
    (['import paddle.fluid as fluid', 'fluid.layers.gather(1, 2)'], (2, 'differs', 'paddle.fluid.layers.gather')),
    (['print "two"'], (1, 'syntax', ''))])
def test_what_is_found(lines, wanted):
    assert wanted in found(*lines)


def test_a_name_of_the_script_hides_the_packages():
    assert found('from paddle.fluid import layers', 'layers = object()', 'layers.no_such(1)') == []
    assert found('import numpy as paddle', 'paddle.no_such(1)') == []


def test_names_from_a_star_are_followed():
    assert (2, 'argument', 'paddle.fluid.layers.fc(sise)') in found('from paddle.fluid.layers import *', 'fc(1, sise=2)')


def test_a_finding_says_a_way_out():
    finding, = check_script('import paddle.fluid as fluid\nfluid.layers.fcc(1)')
    assert str(finding) == 'line 2: paddle.fluid.layers.fcc is not there\n      way out: did you mean fc?'


def model(folder, columns=3):
    main_program, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main_program, startup), fluid.unique_name.guard():
        out = fluid.layers.fc(fluid.data('x', [None, columns]), 1000, act='relu')
    exe = fluid.Executor(fluid.CPUPlace())
    with fluid.scope_guard(fluid.core.Scope()):
        exe.run(startup)
        fluid.io.save_inference_model(str(folder), ['x'], [out], exe, main_program)
    return str(folder / '__model__')


def test_memory_of_a_model_follows_the_batch(tmp_path):
    findings, program = check_model(model(tmp_path))
    assert findings == []
    small, large = models.memory(program, 1), models.memory(program, 100)
    assert small['parameters'] == large['parameters'] == 4 * (3 * 1000 + 1000)
    assert large['feeds'] == 4 * 300 and small['feeds'] == 4 * 3 and large['total'] - small['total'] >= 4 * 99 * 1000


def test_an_unknown_op_of_a_model_is_named(tmp_path):
    path = model(tmp_path)
    program = fluid.Program.parse_from_string(open(path, 'rb').read())
    next(op for op in program.global_block().ops if op.type == 'relu').desc.set_type('relu_of_mine')
    open(path, 'wb').write(program.desc.serialize_to_string())
    finding, = check_model(path)[0]
    assert (finding.kind, finding.name) == ('missing', 'relu_of_mine') and main([path]) == 1


def test_a_wrong_attribute_of_a_model_is_named(tmp_path):
    path = model(tmp_path)
    program = fluid.Program.parse_from_string(open(path, 'rb').read())
    next(op for op in program.global_block().ops if op.type == 'mul')._set_attr('x_num_columns', 1)
    open(path, 'wb').write(program.desc.serialize_to_string())
    finding, = check_model(path)[0]
    assert 'x_num_columns' in finding.text and 'x_num_col_dims' in str(finding)


def test_notes_of_quantised_training_are_no_mistake(tmp_path):
    path = model(tmp_path)
    program = fluid.Program.parse_from_string(open(path, 'rb').read())
    op = next(op for op in program.global_block().ops if op.type == 'mul')
    op._set_attr('out_threshold', 1.5)
    op._set_attr('quantization_type', 'qat_with_weight')
    open(path, 'wb').write(program.desc.serialize_to_string())
    assert check_model(path)[0] == []


def test_the_exit_status_says_it(tmp_path, capsys):
    good, bad, wrong = (tmp_path / name for name in ('good.py', 'bad.py', '__model__'))
    good.write_text('import paddle.fluid as fluid\nfluid.Program()\n')
    bad.write_text('import paddle.fluid as fluid\nfluid.no_such\n')
    assert main([str(good)]) == 0 and main([str(good), str(bad)]) == 1
    wrong.write_bytes(b'not a model')
    assert main([str(wrong)]) == 2 and main([str(tmp_path)]) == 2 and main([str(tmp_path / 'none.py')]) == 2
    assert 'bad.py: 1 to change' in capsys.readouterr().out


def test_memory_is_printed(tmp_path, capsys):
    path = model(tmp_path)
    assert main([path, '--batch', '64']) == 0
    assert 'memory at batch 64: total' in capsys.readouterr().out


def test_an_unknown_shape_is_asked_for(tmp_path, capsys):
    path = model(tmp_path)
    program = fluid.Program.parse_from_string(open(path, 'rb').read())
    program.global_block().var('x').desc.set_shape([-1, -1])
    open(path, 'wb').write(program.desc.serialize_to_string())
    assert main([path, '--batch', '8']) == 1 and '--shape x=8,8' in capsys.readouterr().out
    assert main([path, '--batch', '8', '--shape', 'x=8,3']) == 0


def test_the_command():
    example = os.path.join(ROOT, 'examples', 'fluid', 'word2vec.py')
    run = subprocess.run([sys.executable, '-m', 'paddle.doctor', example], capture_output=True, text=True)
    assert run.returncode == 0 and 'every name is here' in run.stdout


def test_the_page_shows_what_is_printed(tmp_path, capsys, monkeypatch):
    page = open(os.path.join(ROOT, 'docs', 'doctor.md')).read()
    script = page.split('```python script\n')[1].split('```')[0]
    shown = page.split('It prints\n\n```\n')[1].split('```')[0]
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'train.py').write_text(script)
    assert main(['train.py']) == 1 and capsys.readouterr().out == shown
