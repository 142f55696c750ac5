"""Where long work stands: what is told, to whom, and that nothing is measured where nobody looks."""
import io
import os
import sys
import time

import numpy as np
import pytest

import paddle
import paddle.fluid as fluid
from paddle import progress
from paddle.distributed import supervise


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def told():
    states = []
    progress.listen(states.append)
    yield states
    progress.listen(None)


def dataset(tmp_path, samples):
    path = tmp_path / 'part'
    path.write_text(''.join(f'1 {i % 7} 1 0.5\n' for i in range(samples)))
    word, height = fluid.data('word', [None, 1], 'int64', lod_level=1), fluid.data('height', [None, 1])
    made = fluid.DatasetFactory().create_dataset('InMemoryDataset')
    made.set_batch_size(4)
    made.set_thread(1)
    made.set_filelist([str(path)])
    made.set_use_var([word, height])
    made.load_into_memory()
    return made, word, height


def trained(tmp_path, samples=400):
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.scope_guard(fluid.Scope()):
        data, word, height = dataset(tmp_path, samples)
        guess = fluid.layers.fc(fluid.layers.sequence_pool(fluid.layers.embedding(word, [7, 3]), 'sum'), 1)
        loss = fluid.layers.mean(fluid.layers.square_error_cost(guess, height))
        fluid.optimizer.SGD(0.1).minimize(loss)
        exe = fluid.Executor(fluid.CPUPlace())
        exe.run(fluid.default_startup_program())
        exe.train_from_dataset(fluid.default_main_program(), data, fetch_list=[loss], print_period=10 ** 6)


def test_a_listener_hears_of_training_over_a_dataset(tmp_path, told, monkeypatch):
    monkeypatch.setattr(progress, 'EVERY', 0)
    trained(tmp_path)
    states = [state for state in told if state['work'] == 'training']
    assert [state['step'] for state in states] == list(range(1, 101)) and states[0]['total'] == 100
    last = states[-1]
    assert last['seconds_left'] == 0 and last['samples_per_second'] > 0 and 0 <= last['loss'] < states[0]['loss']
    assert set(last['shares']) == {'reader', 'compute', 'communication', 'wait'}
    assert sum(last['shares'].values()) == pytest.approx(1) and last['shares']['compute'] > 0
    assert paddle.progress.line_of(last).startswith('training   step 100 of 100   loss ')


def test_a_terminal_gets_one_line_that_goes_away_and_a_pipe_gets_none(tmp_path, monkeypatch):
    monkeypatch.setattr(progress, 'EVERY', 0)
    for stream, shown in ((Terminal(), True), (io.StringIO(), False)):
        monkeypatch.setattr(sys, 'stderr', stream)
        trained(tmp_path, 40)
        assert ('training   step 10 of 10' in stream.getvalue()) == shown
        assert '\n' not in stream.getvalue() and (not shown or stream.getvalue().endswith('\r\x1b[K'))


def test_nothing_is_timed_where_nobody_looks(monkeypatch):
    monkeypatch.setattr(sys, 'stderr', io.StringIO())
    looked = progress.Progress(10)
    assert not looked.active and looked.run(lambda: 3) == 3
    monkeypatch.setattr(time, 'monotonic', None)  # reading the clock would be an error
    looked.step(1.0, 4)
    assert list(looked.read([1, 2])) == [1, 2] and looked.run(lambda: 4) == 4


def test_what_the_engine_does_for_long_is_told(told, monkeypatch, tmp_path):
    monkeypatch.setattr(progress, 'EVERY', 0)
    monkeypatch.setattr(progress, 'PATIENCE', 0)
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.scope_guard(fluid.Scope()):
        out = fluid.layers.fc(fluid.data('x', [None, 3]), 2)
        exe = fluid.Executor(fluid.CPUPlace())
        exe.run(startup)
        exe.run(main, feed={'x': np.ones((2, 3), 'float32')}, fetch_list=[out])
        fluid.io.save_persistables(exe, str(tmp_path), main)
        fluid.io.load_persistables(exe, str(tmp_path), main)
    said = [f'{state["work"]} {state["at"]}' for state in told]
    assert any('compiling 0 of' in each and 'sum_after_loops' in each for each in said)
    assert 'saving 0 of 2: fc_0.w_0' in said and 'loading 1 of 2: fc_0.b_0' in said, said


def test_a_launcher_says_who_is_alive_and_what_the_first_that_tells_says(tmp_path, told):
    script = tmp_path / 'job.py'
    script.write_text('import time\nfrom paddle import progress\n'
                      'for i in range(8):\n    progress.tell({"work": "training", "step": i + 1, "total": 8, "loss": 0.5})\n    time.sleep(0.1)\n')
    tasks = [supervise.Task(f'rank {i}', f'log.{i}', {'PYTHONPATH': os.pathsep.join(sys.path)}, True) for i in range(2)]
    assert supervise.Job([sys.executable, '-u', str(script)], tasks, str(tmp_path / 'logs')).run() == 0
    # One may begin before the other, and end before it.
    both = [state for state in told if state['alive'] == 2 and all(state.get('processes', {'': None}).values())]
    assert both and set(both[-1]['processes']) == {'rank 0', 'rank 1'}
    assert '2 of 2 processes alive' in progress.line_of(both[-1]) and 'rank 0   step' in progress.line_of(both[-1])


def test_a_listener_must_be_a_function():
    with pytest.raises(TypeError, match='a function of one dict'):
        paddle.progress.listen(3)
