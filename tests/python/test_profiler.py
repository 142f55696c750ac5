"""fluid.profiler: what is recorded, the table, and the timeline."""
import json

import numpy as np
import pytest

import paddle.fluid as fluid
from paddle.fluid import profiler


def _step():
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup):
        x = fluid.data('x', [None, 4])
        loss = fluid.layers.mean(fluid.layers.fc(x, 3))
        fluid.optimizer.SGD(0.1).minimize(loss)
    exe = fluid.Executor()
    scope = fluid.Scope()
    exe.run(startup, scope=scope)
    return lambda: exe.run(main, feed={'x': np.ones((2, 4), 'float32')}, fetch_list=[loss], scope=scope)


def _rows(text):
    lines = text.split('Ratio.')[1].splitlines()
    return {line.split()[0]: line.split()[1:] for line in lines if '::' in line}


def test_the_table_counts_each_op_once_per_run(capsys, tmp_path):
    step = _step()
    path = tmp_path / 'profile'
    with profiler.profiler('CPU', 'total', str(path)):
        for _ in range(3):
            step()
    text = capsys.readouterr().out
    header = next(line for line in text.splitlines() if line.startswith('Event'))
    assert header.split() == ['Event', 'Calls', 'Total', 'Min.', 'Max.', 'Ave.', 'Ratio.']
    rows = {name.split('::')[1]: cells for name, cells in _rows(text).items()}
    assert rows['mul'][0] == '3'
    assert rows['mean'][0] == '3'
    totals = [float(cells[1]) for cells in rows.values()]
    assert totals == sorted(totals, reverse=True)
    assert sum(float(cells[5]) for cells in rows.values()) == pytest.approx(1, abs=1e-5)
    events = json.loads(path.read_text())['traceEvents']
    assert sum(event['name'] == 'mul' for event in events) == 3
    assert all(event['ph'] == 'X' and event['dur'] >= 0 for event in events)


def test_nothing_is_recorded_while_it_is_off_and_reset_forgets(capsys, tmp_path):
    step = _step()
    step()
    profiler.start_profiler('All')
    step()
    profiler.reset_profiler()
    profiler.stop_profiler(profile_path=str(tmp_path / 'p'))
    assert _rows(capsys.readouterr().out) == {}
    profiler.stop_profiler(profile_path=str(tmp_path / 'q'))  # not running: nothing
    assert capsys.readouterr().out == '' and not (tmp_path / 'q').exists()


def test_wrong_arguments_are_refused():
    with pytest.raises(ValueError, match="states 'CPU', 'GPU' and 'All', got 'TPU'"):
        profiler.start_profiler('TPU')
    with pytest.raises(ValueError, match='tracer_option'):
        profiler.start_profiler('CPU', 'Some')
    with pytest.raises(ValueError, match='sorted_key'):
        profiler.stop_profiler('size')
    with pytest.raises(ValueError, match='output_mode is'):
        with profiler.cuda_profiler('out', 'xml'):
            pass
    with pytest.raises(NotImplementedError, match='drives nvprof'):
        with profiler.cuda_profiler('out'):
            pass
