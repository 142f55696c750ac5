"""The certificate: what is the same is said to be, what differs is found with its first op, and records are held against."""
import json
import os
import subprocess
import sys

import numpy as np
import pytest

import _trireme as _C
import paddle.fluid as fluid
from paddle import static
from paddle.certify import certify, record as recorder
from paddle.certify.comparisons import Subject
from paddle.certify.records import Record

HOSTGPU = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(_C.__file__))), 'tests', 'libhostgpu.so')
SCRIPT = '''
import numpy as np
import paddle.fluid as fluid

fluid.default_startup_program().random_seed = 5
x, y = fluid.data('x', [None, 4]), fluid.data('y', [None, 1])
hidden = fluid.layers.batch_norm(fluid.layers.fc(x, 8))
loss = fluid.layers.mean(fluid.layers.square_error_cost(fluid.layers.fc(hidden, 1, act='tanh'), y))
fluid.optimizer.Adam(0.01).minimize(loss)
exe = fluid.Executor(fluid.CPUPlace())
exe.run(fluid.default_startup_program())
numbers = np.random.RandomState(2)
for _ in range(6):
    x = numbers.rand(16, 4).astype('float32')
    exe.run(feed={'x': x, 'y': x[:, :1]}, fetch_list=[loss])
'''


def run(*words, folder, status=0, **environment):
    done = subprocess.run([sys.executable, *words], cwd=folder, capture_output=True, text=True, timeout=120,
                          env={**os.environ, 'PYTHONPATH': os.pathsep.join(sys.path), **environment})
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout


def verdicts(certificate):
    return {entry['name']: entry for entry in certificate['comparisons']}


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp('certify')
    (made / 'train.py').write_text(SCRIPT)
    return made


def test_a_training_script_is_the_same_in_every_way(folder):
    said = run('-m', 'paddle.certify', 'train.py', folder=folder)
    assert said.splitlines()[-1] == 'verdict: the same'
    found = json.loads((folder / 'train.certificate.json').read_text())
    entries = verdicts(found)
    assert found['trains'] and set(f'pass {name}' for name in _C.pass_names()) <= set(entries)
    for name in ('the same once more', 'all threads', '2 places, one thread', 'saved and loaded', 'compiled program in a file'):
        assert entries[name]['verdict'] == 'equal bits' and entries[name]['equal'] == entries[name]['compared'] > 10
    assert entries['2 places']['verdict'] in ('equal bits', 'within the bound')
    assert 'The same in every way it was run' in (folder / 'train.certificate.html').read_text()


def test_a_device_gives_the_bits_of_the_cpu(folder):
    if not os.path.exists(HOSTGPU):
        pytest.skip('the C++ tests are not built')
    run('-m', 'paddle.certify', 'train.py', '-o', 'gpu.html', folder=folder, FLAGS_gpu_library=HOSTGPU)
    entry = verdicts(json.loads((folder / 'gpu.json').read_text()))['GPU']
    assert entry['verdict'] == 'equal bits' and entry['compared'] > 10


def small(act='tanh', scale=1.0):
    main, startup = fluid.Program(), fluid.Program()
    startup.random_seed = 3
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        loss = fluid.layers.mean(fluid.layers.scale(fluid.layers.fc(fluid.data('x', [None, 4]), 3, act=act), scale))
        fluid.optimizer.SGD(0.1).minimize(loss)
    scope = fluid.Scope()
    fluid.Executor().run(startup, scope=scope)
    return main, scope, loss


def test_the_first_op_that_differs_is_named_with_its_line():
    feed = {'x': np.random.RandomState(0).rand(4, 4).astype('float32')}
    (main, scope, _), (other, other_scope, _) = small(), small(scale=1.001)
    a, b = (_C.StepValues(program, feed, held, fluid.CPUPlace()) for program, held in ((main, scope), (other, other_scope)))
    found = _C.compare_steps(main, a, b, 1e-5)
    assert found['op'] == 'scale' and found['line'].startswith(__file__) and found['difference'] == pytest.approx(1e-3, rel=0.01)
    assert 0 < found['equal'] < found['compared']
    assert 'op' not in _C.compare_steps(main, a, b, 1e-1)


def test_the_scope_stays_as_it_was():
    main, scope, loss = small()
    name = main.all_parameters()[0].name
    before = np.array(scope.find_var(name).get_tensor())
    certify(main, {'x': np.ones((4, 4), 'float32')}, scope, [loss.name])
    np.testing.assert_array_equal(np.array(scope.find_var(name).get_tensor()), before)


def test_what_cannot_be_compared_says_why():
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup):
        x = fluid.data('x', [3, 4])
        mask = fluid.data('mask', [3, 3])
        loss = fluid.layers.reduce_sum(fluid.layers.fc(x, 3) * mask) / fluid.layers.reduce_sum(mask)
        fluid.optimizer.SGD(0.1).minimize(loss)
    scope = fluid.Scope()
    fluid.Executor().run(startup, scope=scope)
    feed = {'x': np.ones((3, 4), 'float32'), 'mask': np.ones((3, 3), 'float32')}
    found = verdicts(certify(main, feed, scope, [loss.name]))
    assert found['2 places']['verdict'] == 'not run' and 'elementwise_div and no mean over samples' in found['2 places']['why']
    assert found['2 places, one thread']['verdict'] == 'not run' and 'fed float32 [1, 3]' in found['2 places, one thread']['why']


def test_a_mean_of_what_mixes_samples_is_no_mean_over_samples():
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup):
        x, found = fluid.data('x', [None, 4]), fluid.data('found', [None, 1])
        each = fluid.layers.fc(x, 1) / fluid.layers.reduce_sum(found)
        loss = fluid.layers.mean(each * found)
        fluid.optimizer.SGD(0.1).minimize(loss)
    scope = fluid.Scope()
    fluid.Executor().run(startup, scope=scope)
    feed = {'x': np.ones((4, 4), 'float32'), 'found': np.float32([[1], [0], [0], [1]])}
    found = verdicts(certify(main, feed, scope, [loss.name]))
    assert found['2 places']['verdict'] == 'not run' and 'reduce_sum and no mean' in found['2 places']['why']


def test_a_mean_over_chosen_rows_is_no_mean_over_samples():
    layers = fluid.layers
    box, score = fluid.data('box', [None, 6, 4]), fluid.data('score', [None, 6, 1])
    anchors, wanted = fluid.data('anchors', [6, 4]), fluid.data('wanted', [None, 4], lod_level=1)
    crowd, info = fluid.data('crowd', [None, 1], 'int32', lod_level=1), fluid.data('info', [None, 3])
    guess = layers.rpn_target_assign(box, score, anchors, anchors, wanted, crowd, info)[0]
    loss = layers.mean(layers.fc(guess, 1))
    fluid.optimizer.SGD(0.1).minimize(loss)
    subject = Subject(fluid.default_main_program(), {}, fluid.Scope(), [loss.name])
    assert subject.sums_its_loss() == 'rpn_target_assign'


def test_batch_norm_of_2x_is_certified_on_several_places():
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup):
        images = static.data('images', [None, 3, 4, 4])
        loss = fluid.layers.mean(fluid.layers.square(static.nn.batch_norm(images)))
        fluid.optimizer.SGD(0.1).minimize(loss)
    assert any(op.output('ReserveSpace') for op in main.global_block().ops if op.type == 'batch_norm')
    scope = fluid.Scope()
    fluid.Executor().run(startup, scope=scope)
    feed = {'images': np.random.RandomState(3).rand(8, 3, 4, 4).astype('float32')}
    found = verdicts(certify(main, feed, scope, [loss.name]))
    for name in ('2 places', '4 places', '2 places, one thread'):
        assert found[name]['verdict'] in ('equal bits', 'within the bound'), found[name]


def test_a_program_that_needs_other_processes_is_not_run():
    main = fluid.Program()
    block = main.global_block()
    block.append_op('send_barrier', outputs={'Out': block.create_var(name='sent')},
                    attrs={'endpoints': ['127.0.0.1:1'], 'trainer_id': 0, 'op_role': 4})
    found = certify(main, {}, fluid.Scope())
    assert found['verdict'] == 'not run' and 'send_barrier' in found['comparisons'][0]['why']


def test_a_record_is_made_and_held_against(folder):
    """record.py watches whatever engine is there: here it is this one."""
    run(recorder.__file__, 'train.py', '--output', 'record.npz', '--steps', '2', folder=folder)
    held = Record(str(folder / 'record.npz'))
    assert len(held.feeds) == 2 and held.fetches == ['mean_0.tmp_0'] and set(held.feeds[0]) == {'x', 'y'}
    assert not np.array_equal(held.before['fc_0.w_0'], held.after['fc_0.w_0'])
    for words in (['train.py'], []):
        said = run('-m', 'paddle.certify', *words, '--record', 'record.npz', '-o', 'record.html', folder=folder)
        assert 'the record of' in said and 'verdict: the same' in said
    with np.load(folder / 'record.npz') as arrays:
        wrong = dict(arrays)
    wrong['after/fc_1.w_0'] = wrong['after/fc_1.w_0'] * np.float32(1.01)
    np.savez(folder / 'wrong.npz', **wrong)
    said = run('-m', 'paddle.certify', '--record', 'wrong.npz', '-o', 'wrong.html', folder=folder, status=1)
    assert 'fc_1.w_0' in said and 'first adam' in said and said.endswith('verdict: differs\n')


def test_the_original_agrees_where_its_record_is(folder):
    """Made by record.py under PaddlePaddle 1.8.5 (Python 2.7), of a net with two convolutions, batch_norm and Adam."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'original', 'conv_step.npz')
    said = run('-m', 'paddle.certify', '--record', path, '-o', 'original.html', folder=folder)
    entry = next(entry for name, entry in verdicts(json.loads((folder / 'original.json').read_text())).items() if '1.8.5' in name)
    assert entry['verdict'] == 'within the bound' and entry['compared'] > 30 and entry['left_out'] > 0, said


def test_a_model_is_certified_too(tmp_path):
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.scope_guard(fluid.Scope()):
        out = fluid.layers.fc(fluid.data('x', [None, 4]), 2, act='softmax')
        exe = fluid.Executor()
        exe.run(startup)
        fluid.io.save_inference_model(str(tmp_path / 'model'), ['x'], [out], exe, main)
    np.savez(tmp_path / 'data.npz', x=np.random.RandomState(1).rand(8, 4).astype('float32'))
    said = run('-m', 'paddle.certify', 'model', '--feed', 'data.npz', folder=tmp_path)
    assert '4 places' in said and 'verdict: the same' in said
    assert 'neither a Python script nor a saved model' in subprocess.run(
        [sys.executable, '-m', 'paddle.certify', 'nothing'], cwd=tmp_path, capture_output=True, text=True,
        env={**os.environ, 'PYTHONPATH': os.pathsep.join(sys.path)}).stderr
