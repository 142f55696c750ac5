"""The jobs of examples/distributed, by the commands that their first lines give, reach what these state."""
import pathlib
import re

import pytest

import rank_job

FOLDER = pathlib.Path(__file__).parents[2] / 'examples' / 'distributed'


def run(name, tmp_path, *more):
    path = FOLDER / name
    command = re.search(r'python -m paddle\.distributed\.(\w+) (.*) examples/distributed/', path.read_text())
    code, err = rank_job.launch(command.group(1), command.group(2).split() + ['--log_dir', str(tmp_path)],
                                [str(path), *more])
    assert code == 0, err
    logs = [log.read_text() for log in sorted(tmp_path.glob('workerlog.*'))]
    return [float(re.search(r'[\d.]+$', log.strip()).group()) for log in logs]


def test_the_regression_with_servers(tmp_path):
    errors = run('regression.py', tmp_path)
    assert len(errors) == 2 and all(error < 62 for error in errors)


def test_digits_by_ranks(tmp_path):
    accuracies = run('digits.py', tmp_path)
    assert len(accuracies) == 2 and len(set(accuracies)) == 1 and accuracies[0] > 0.95


@pytest.mark.filterwarnings('ignore')
def test_clicks_with_a_table_on_servers(tmp_path):
    saved = tmp_path / 'saved'
    areas = run('ctr.py', tmp_path, str(saved))
    assert len(areas) == 2 and all(area > 0.80 for area in areas)
    assert (saved / 'table').stat().st_size > 4000 * 8 * 4


def test_a_plane_by_a_program_in_another_language(tmp_path):
    program = FOLDER.parents[1] / 'build' / 'release' / 'examples' / 'plane'
    if not program.exists():
        pytest.skip('the examples in C++ are not built')
    code, err = rank_job.launch('launch_ps', ['--server_num', '2', '--worker_num', '2', '--log_dir', str(tmp_path)],
                                [str(program)])
    assert code == 0, err
    for log in tmp_path.glob('workerlog.*'):
        assert float(log.read_text().split()[-1]) < 0.001
