"""Reports and pages of paddle.view: what is in them agrees with the engine, and nothing is kept where nobody asks."""
import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest

import _trireme as _C
import paddle.fluid as fluid
from paddle import viewer as view
from paddle.viewer import reports

SCRIPT = '''
import sys
import numpy as np
import paddle.fluid as fluid

x = fluid.data('x', [None, 4])
with fluid.name_scope('head'):
    loss = fluid.layers.mean(fluid.layers.fc(x, 3, act='relu'))
test = fluid.default_main_program().clone(for_test=True)
fluid.optimizer.Adam(0.1).minimize(loss)
exe = fluid.Executor(fluid.CPUPlace())
exe.run(fluid.default_startup_program())
for step in range(int(sys.argv[1])):
    exe.run(feed={'x': np.ones((2, 4), 'float32')}, fetch_list=[loss])
exe.run(test, feed={'x': np.ones((2, 4), 'float32')}, fetch_list=[loss])
print('the script has run', sys.argv[1:])
'''


def run(*words, folder, status=0):
    done = subprocess.run([sys.executable, '-m', *words], cwd=folder, capture_output=True, text=True, timeout=120,
                          env={**os.environ, 'PYTHONPATH': os.pathsep.join(sys.path)})
    assert done.returncode == status, done.stdout + done.stderr
    return done


@pytest.fixture(scope='module')
def viewed(tmp_path_factory):
    folder = tmp_path_factory.mktemp('view')
    (folder / 'train.py').write_text(SCRIPT)
    done = run('paddle.view', 'train.py', '12', '-o', 'page.html', '--data', 'data.json', '--trace', 'trace.json', '--',
               '--more', folder=folder)
    return folder, done, json.loads((folder / 'data.json').read_text())


def orders(report):
    """Numbers of the nodes of each graph, after each step."""
    now = [[] for _ in report['passes']['graphs']]
    for step in report['passes']['steps']:
        for changed in step['graphs']:
            now[changed['graph']] = [first + i for first, count in changed['order'] for i in range(count)]
        yield step, [list(order) for order in now]


def test_a_script_runs_as_it_does_by_itself_and_its_trained_program_is_shown(viewed):
    folder, done, report = viewed
    assert "the script has run ['12', '--more']" in done.stdout
    types = [op['type'] for op in report['program']['blocks'][0]['ops']]
    assert types[:4] == ['mul', 'elementwise_add', 'relu', 'mean'] and types.count('adam') == 2
    assert report['profile']['steps'] == 10 and len(report['curves']['mean_0.tmp_0']) == 12
    page = (folder / 'page.html').read_text()
    assert page.count('<script') == 2 and 'http' not in re.sub(r'http://www.w3.org/2000/svg', '', page)


def test_ops_have_shapes_attributes_scopes_and_the_users_line(viewed):
    _, _, report = viewed
    block = report['program']['blocks'][0]
    mul = block['ops'][0]
    line = report['lines'][mul['line']]
    assert line['file'].endswith('train.py') and line['line'] == 8 and 'fc(x, 3' in line['text']
    assert mul['attrs']['x_num_col_dims'] == '1' and mul['scope'] == '/head/' and mul['inputs']['Y'] == ['head/fc_0.w_0'] or mul['inputs']['Y']
    shapes = {var['name']: var['shape'] for var in block['vars'] if 'shape' in var}
    assert shapes['x'] == [-1, 4] and shapes[mul['inputs']['Y'][0]] == [4, 3]


def test_steps_of_the_pipeline_end_in_the_plan(viewed):
    _, _, report = viewed
    for step, now in orders(report):
        assert sum(map(len, now)) == step['nodes'] and len(set(now[0])) == len(now[0])
    names = [step['name'] for step in report['passes']['steps']]
    assert names[2:] == _C.pass_names()
    frame, = report['plan']['frames']
    assert [one['node'] for one in frame['instructions']] == now[0]
    nodes = report['passes']['nodes']
    for id in now[0]:
        if 'op' in nodes[id]:
            block, index = nodes[id]['op']
            assert report['program']['blocks'][block]['ops'][index]['type'] in nodes[id]['of'].split('+')
    product, = [one for one in frame['instructions'] if nodes[one['node']]['type'] == 'mul']
    assert product['flops'] == 2 * 2 * 4 * 3 and product['kernels']


def test_memory_is_that_of_the_plan(viewed):
    _, _, report = viewed
    frame, = report['plan']['frames']
    placed = [slot for slot in frame['slots'] if 'offset' in slot]
    assert placed and max(slot['offset'] + slot['bytes'] for slot in placed) <= frame['arena']['planned']
    for i, a in enumerate(placed):
        for b in placed[:i]:
            apart = a['last'] < b['first'] or b['last'] < a['first']
            assert apart or a['offset'] + a['bytes'] <= b['offset'] or b['offset'] + b['bytes'] <= a['offset'] or a['offset'] == b['offset']


def test_events_name_the_instructions_that_ran(viewed):
    folder, _, report = viewed
    profile, instructions = report['profile'], report['plan']['frames'][0]['instructions']
    assert profile['columns'] == ['kind', 'name', 'thread', 'start_ns', 'ns', 'replica', 'runner', 'plan', 'instruction']
    ran = [row[8] for row in profile['events'] if row[0] == 0]
    assert ran == list(range(len(instructions))) * 10
    assert all(row[3] >= 0 and row[4] >= 0 for row in profile['events'])
    traced = json.loads((folder / 'trace.json').read_text())['traceEvents']
    assert sum(event['ph'] == 'X' for event in traced) == len(profile['events'])


def test_a_script_can_be_ended_early_and_a_page_made_of_reports(viewed):
    folder, _, _ = viewed
    done = run('paddle.view', 'train.py', '100000', '--stop-after', '5', '--data', 'early.json', folder=folder)
    assert 'the script has run' not in done.stdout
    assert json.loads((folder / 'early.json').read_text())['profile']['steps'] == 5
    run('paddle.view', 'data.json', 'early.json', '-o', 'both.html', folder=folder)
    assert (folder / 'both.html').read_text().count('"format":"trireme report 1"') == 2
    (folder / 'other.json').write_text('{}')
    assert 'no report of this version' in run('paddle.view', 'other.json', folder=folder, status=1).stderr


def program_of_two():
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup):
        out = fluid.layers.fc(fluid.data('x', [None, 4]), 2)
    return main, startup, out


def test_a_saved_model_is_shown_on_numbers_that_are_made_up(tmp_path):
    main, startup, out = program_of_two()
    exe = fluid.Executor(fluid.CPUPlace())
    with fluid.scope_guard(fluid.Scope()):
        exe.run(startup)
        fluid.io.save_inference_model(str(tmp_path / 'model'), ['x'], [out], exe, main)
    run('paddle.view', 'model', '--data', 'model.json', folder=tmp_path)
    report = json.loads((tmp_path / 'model.json').read_text())
    assert 'mul' in [op['type'] for op in report['program']['blocks'][0]['ops']] and report['profile']['steps'] == 3


def test_a_compiled_program_shows_itself_and_its_variables_stay(tmp_path):
    main, startup, out = program_of_two()
    with fluid.program_guard(main, startup):
        fluid.optimizer.SGD(0.5).minimize(fluid.layers.mean(out))
    exe, feed = fluid.Executor(fluid.CPUPlace()), {'x': np.ones((2, 4), 'float32')}
    with fluid.scope_guard(fluid.Scope()):
        exe.run(startup)
        compiled = fluid.CompiledProgram(main)
        with pytest.raises(RuntimeError, match='has not run yet'):
            compiled.view(str(tmp_path / 'page.html'))
        exe.run(compiled, feed=feed, fetch_list=[out])
        before = np.array(fluid.global_scope().find_var(main.all_parameters()[0].name).get_tensor())
        compiled.view(str(tmp_path / 'page.html'), feed=feed, fetch_list=[out])
        after = np.array(fluid.global_scope().find_var(main.all_parameters()[0].name).get_tensor())
    np.testing.assert_array_equal(before, after)
    report = json.loads(re.search(r'id="data">(.*?)</script>', (tmp_path / 'page.html').read_text(), re.S).group(1))['runs'][0]
    assert report['profile']['steps'] == 5 and report['strategies']['build'][0]['name'] == 'reduce_strategy'
    main.global_block().append_op('scale', inputs={'X': out}, outputs={'Out': out}, attrs={'scale': 2.0})
    with pytest.raises(RuntimeError, match='edited after it ran'):
        compiled.view(str(tmp_path / 'page.html'))


def test_the_profiler_writes_a_page_where_it_is_asked_for_one(tmp_path, capsys):
    main, startup, out = program_of_two()
    exe = fluid.Executor(fluid.CPUPlace())
    full = fluid.Executor.run
    with fluid.scope_guard(fluid.Scope()):
        exe.run(startup)
        with fluid.profiler.profiler('CPU', 'total', str(tmp_path / 'page.html')):
            exe.run(main, feed={'x': np.ones((2, 4), 'float32')}, fetch_list=[out])
    assert fluid.Executor.run is full  # nothing is watched any more
    assert 'mul' in capsys.readouterr().out and '"steps":1' in (tmp_path / 'page.html').read_text()


def test_names_can_be_anything(tmp_path):
    name = '</script><b>&amp;"\\\n\t\u2028é\x01'
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()):
        out = fluid.layers.tanh(fluid.data(name, [None, 2]))
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(main, feed={name: np.ones((1, 2), 'float32')}, fetch_list=[out])
    text = reports.report(main, exe, curves={name: [1.0]})
    assert '<' not in text and '&' not in text
    read = json.loads(text)
    assert name in [var['name'] for var in read['program']['blocks'][0]['vars']] and name in read['curves']


def test_pictures_are_drawn_in_one_call(viewed, tmp_path):
    folder, _, _ = viewed
    text = (folder / 'data.json').read_text()
    for ending, head in (('png', b'\x89PNG'), ('svg', b'<?xml')):
        view.draw_loss([3.0, 2.0, 1.0], str(tmp_path / f'loss.{ending}'))
        view.draw_timeline(text, str(tmp_path / f'timeline.{ending}'))
        for name in ('loss', 'timeline'):
            assert (tmp_path / f'{name}.{ending}').read_bytes().startswith(head)
    with pytest.raises(ValueError, match='.png or an .svg'):
        view.draw_loss([1.0], str(tmp_path / 'loss.gif'))


def test_a_step_that_nobody_watches_keeps_nothing():
    main, startup, out = program_of_two()
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(startup)
    feed = {'x': np.ones((2, 4), 'float32')}
    for _ in range(3):
        exe.run(main, feed=feed, fetch_list=[out])
    assert not _C.profiling_on() and len(_C.stop_profiling()) == 0
