"""Servers that die and come again: nothing that trainers have sent is lost, and nothing counts twice."""
import re
import subprocess
import sys

import pytest

import ps_job

KILLED = {0: {'END_AT': '3', 'END_BY': 'SERVER'}}


def snapshots(directory, seconds, **more):
    return {'FLAGS_server_snapshot': str(directory), 'FLAGS_server_snapshot_seconds': str(seconds), **more}


# A snapshot after every step, and none but the first: all steps are told again.
@pytest.mark.parametrize('mode, seconds, drops', [('sync', 0, ''), ('sync', 1000, ''), ('sync_sparse', 1000, '0.2,7')])
def test_a_killed_server_goes_on_and_the_bits_are_those_of_a_calm_job(tmp_path, mode, seconds, drops):
    calm = ps_job.job(2, 2, mode, steps=6)[1]
    served, trained = ps_job.job(2, 2, mode, steps=6, env=KILLED, comes_again=True,
                                 everywhere=snapshots(tmp_path, seconds, FLAGS_drop_answers=drops))
    assert [each.said for each in trained] == [each.said for each in calm]
    assert [each.code for each in served] == [0, 0]
    step = int(re.search(r'goes on from its snapshot of step (\d+)', served[0].err).group(1))
    assert step >= 3 if seconds == 0 else step <= 1  # its startup program is a step
    assert list(tmp_path.iterdir()) == []


def test_a_killed_server_of_an_async_job_goes_on(tmp_path):
    served, trained = ps_job.job(1, 2, 'async', steps=20, env=KILLED, comes_again=True,
                                 everywhere=snapshots(tmp_path, 1000))
    assert [len(each.said['losses']) for each in trained] == [20, 20] and served[0].code == 0


def test_trainers_wait_for_a_server_only_so_long(tmp_path):
    served, trained = ps_job.job(1, 1, steps=6, env=KILLED,
                                 everywhere=snapshots(tmp_path, 0, FLAGS_server_return_limit='2'))
    assert served[0].code == -9
    assert trained[0].code == 1 and 'cannot be reached' in trained[0].err


def test_a_server_that_has_forgotten_everything_is_refused(tmp_path):
    settings = snapshots(tmp_path, 1000)
    del settings['FLAGS_server_snapshot']
    _, trained = ps_job.job(1, 1, steps=6, env=KILLED, comes_again=True,
                            everywhere={**settings, 'FLAGS_rpc_deadline': '5000'})
    assert trained[0].code == 1
    assert 'without its snapshot' in trained[0].err or 'cannot be reached' in trained[0].err


SCRIPT = '''
import os, signal, sys, time
import numpy as np
import paddle.fluid as fluid

out = fluid.layers.fc(fluid.layers.data('x', [1]), 1, bias_attr=False,
                      param_attr=fluid.ParamAttr('w', initializer=fluid.initializer.Constant(0.0)))
fluid.optimizer.SGD(1.0).minimize(fluid.layers.mean(out))
trainer, servers = int(os.environ.get('PADDLE_TRAINER_ID', 0)), os.environ['PADDLE_PSERVERS_IP_PORT_LIST']
t = fluid.DistributeTranspiler()
t.transpile(trainer, pservers=servers, trainers=2)
exe = fluid.Executor(fluid.CPUPlace())
if os.environ['TRAINING_ROLE'] == 'PSERVER':
    program, startup = t.get_pserver_programs(servers)
    exe.run(startup)
    open(sys.argv[1], 'w').write(str(os.getpid()))
    exe.run(program)
    sys.exit(0)
program = t.get_trainer_program()
exe.run(fluid.default_startup_program())
for step in range(9):
    if trainer == 0 and step in (2, 5):
        os.kill(int(open(sys.argv[1]).read()), signal.SIGKILL)
    exe.run(program, {'x': np.ones([4, 1], 'float32')})
    assert np.array(fluid.global_scope().find_var('w').get_tensor()).item() == -(step + 1)
exe.close()
'''


@pytest.mark.parametrize('restarts', [3, 1])
def test_the_launcher_starts_a_killed_server_again_so_many_times(tmp_path, restarts):
    (tmp_path / 'script.py').write_text(SCRIPT)
    ended = subprocess.run(
        [sys.executable, '-m', 'paddle.distributed.launch_ps', '--server_num', '1', '--worker_num', '2',
         '--server_restarts', str(restarts), '--log_dir', str(tmp_path / 'logs'), '--start_port',
         str(ps_job.free_ports(1)[0]), str(tmp_path / 'script.py'), str(tmp_path / 'pid')],
        capture_output=True, text=True, timeout=60)
    assert f'server 0 was ended by SIGKILL and is started again (1 of {restarts} times)' in ended.stderr
    assert ended.returncode == (0 if restarts == 3 else 1), ended.stderr
    if restarts == 1:
        assert 'launch: server 0 was ended by SIGKILL first, and ended the job' in ended.stderr
    assert not (tmp_path / 'logs' / 'snapshots').exists()
