"""The launchers: environment, logs, the first failure, signals, and nothing left behind."""
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

import rank_job

SHOW = '''
import os
for name in sorted(os.environ):
    if name.startswith(("PADDLE", "TRAINING", "POD", "FLAGS_selected")) or name == "http_proxy":
        print(name + "=" + os.environ[name])
'''
STAY = '''
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(100)"])
print(child.pid, flush=True)
time.sleep(100)
'''


@pytest.fixture
def script(tmp_path):
    def write(text):
        path = tmp_path / 'script.py'
        path.write_text(text)
        return str(path)
    return write


def shown(path):
    return dict(line.split('=', 1) for line in pathlib.Path(path).read_text().splitlines())


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return pathlib.Path(f'/proc/{pid}/stat').read_text().split(')')[1].split()[0] != 'Z'


def all_end(pids, limit=10):
    end = time.monotonic() + limit
    while time.monotonic() < end and any(map(alive, pids)):
        time.sleep(0.05)
    return not any(map(alive, pids))


def test_ranks_are_told_who_they_are(script, tmp_path):
    code, err = rank_job.launch('launch', ['--selected_gpus', '3,5', '--started_port', 47100, '--log_dir', tmp_path],
                                [script(SHOW)], {'http_proxy': 'nowhere', 'CUDA_VISIBLE_DEVICES': '5,3'})
    assert code == 0, err
    assert shown(tmp_path / 'workerlog.1') == {
        'PADDLE_TRAINING_ROLE': 'TRAINER', 'PADDLE_TRAINER_ID': '1', 'PADDLE_TRAINERS_NUM': '2', 'PADDLE_CURRENT_ENDPOINT': '127.0.0.1:47101',
        'PADDLE_TRAINER_ENDPOINTS': '127.0.0.1:47100,127.0.0.1:47101', 'FLAGS_selected_gpus': '0'}


def test_servers_and_trainers_are_told_who_they_are(script, tmp_path):
    code, err = rank_job.launch('launch_ps', ['--start_port', 47110, '--server_num', 2, '--worker_num', 3,
                                              '--log_dir', tmp_path], [script(SHOW)])
    assert code == 0, err
    servers = '127.0.0.1:47110,127.0.0.1:47111'
    assert shown(tmp_path / 'serverlog.1') == {
        'PADDLE_PSERVERS_IP_PORT_LIST': servers, 'PADDLE_TRAINERS_NUM': '3', 'TRAINING_ROLE': 'PSERVER',
        'POD_IP': '127.0.0.1', 'PADDLE_PORT': '47111', 'PADDLE_PSERVER_ID': '1'}
    assert shown(tmp_path / 'workerlog.2') == {
        'PADDLE_PSERVERS_IP_PORT_LIST': servers, 'PADDLE_TRAINERS_NUM': '3', 'TRAINING_ROLE': 'TRAINER',
        'PADDLE_TRAINER_ID': '2'}


def test_the_first_failure_is_shown_and_ends_the_others(script, tmp_path):
    text = STAY.replace('time.sleep(100)\n', '''
import os
if os.environ["PADDLE_TRAINER_ID"] == "1":
    raise ValueError("no data here")
time.sleep(100)
''').replace('import subprocess', 'import os, subprocess')
    code, err = rank_job.launch('launch', ['--nproc_per_node', 3, '--log_dir', tmp_path / 'logs'], [script(text)])
    assert code == 1
    assert 'rank 1 ended with 1 first' in err and 'ValueError: no data here' in err
    pids = [int((tmp_path / 'logs' / f'workerlog.{i}').read_text().split()[0]) for i in (0, 2)]
    assert all_end(pids)


@pytest.mark.parametrize('number', [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_nothing_is_left_when_the_launcher_is_ended(script, tmp_path, number):
    logs = tmp_path / 'logs'
    launcher = subprocess.Popen(
        [sys.executable, '-m', 'paddle.distributed.launch', '--nproc_per_node', '2', '--log_dir', str(logs),
         '--print_config', 'False', script('import os\nprint(os.getpid(), flush=True)\nimport time\ntime.sleep(100)\n')])
    end = time.monotonic() + 40
    written = lambda: [path.read_text() for path in sorted(logs.glob('workerlog.*'))]
    while time.monotonic() < end and not (len(written()) == 2 and all(written())):
        time.sleep(0.05)
    pids = [int(text) for text in written()]
    launcher.send_signal(number)
    assert launcher.wait(timeout=20) == (-9 if number == signal.SIGKILL else 128 + number)
    assert all_end(pids)


@pytest.mark.parametrize('arguments, text', [
    (['--node_ip', '10.1.1.1', 'x.py'], 'not among'),
    (['--nproc_per_node', '2', '--started_port', '1', '--node_ip', '192.0.2.1', '--ips', '192.0.2.1', 'x.py'],
     'cannot use 192.0.2.1:1'),
    (['--selected_gpus', '0', '--nproc_per_node', '2', 'x.py'], 'both say how many'),
    (['--nnodes', '2', 'x.py'], '--nnodes is 2, but --ips names 1'),
    (['--run_mode', 'ps', 'x.py'], 'servers are not asked for'),
    (['--servers', 'a:1,b:2', '--server_num', '1', '--worker_num', '1', 'x.py'], '--servers names 2'),
    (['--servers', 'a:1', 'x.py'], 'come together'),
    (['--servers', '192.0.2.1:1', '--worker_num', '1', 'x.py'], 'cannot use 192.0.2.1:1'),
    (['--max_restart', '3', 'x.py'], 'not started again by themselves'),
])
def test_what_cannot_be_started_is_said_before_anything_is(arguments, text):
    code, err = rank_job.launch('launch', arguments, [])
    assert code != 0 and text in err
