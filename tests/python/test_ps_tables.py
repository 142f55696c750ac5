"""Ops of older programs that ask servers for rows and for files; and who may ask at all."""
import os
import pathlib
import subprocess
import sys

import numpy as np

import paddle.fluid as fluid
import ps_job

WORKER = str(pathlib.Path(__file__).with_name('ps_ops_worker.py'))


def start(role, *arguments, env=None):
    settings = {**os.environ, 'OMP_NUM_THREADS': '1', 'FLAGS_rpc_deadline': '20000', **(env or {})}
    return subprocess.Popen([sys.executable, WORKER, role] + [str(each) for each in arguments], env=settings,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_rows_are_taken_on_first_use_and_the_table_is_saved_by_its_server(tmp_path):
    endpoint = '127.0.0.1:%d' % ps_job.free_ports(1)[0]
    served, trained = ps_job.wait_for([start('server', endpoint), start('trainer', endpoint, tmp_path)])
    assert served.code == 0, served.err
    first, second = trained.said
    assert first == [[0, 1], [2, 3]]
    assert second == [[2, 3], [4, 5], [0, 1]]
    program = fluid.Program()
    program.global_block().create_var(name='table', type=fluid.core.VarDesc.VarType.SELECTED_ROWS, persistable=True)
    program.global_block().append_op(type='load', inputs={}, outputs={'Out': ['table']},
                                     attrs={'file_path': str(tmp_path / 'table_0')})
    fluid.Executor(fluid.CPUPlace()).run(program)
    rows = fluid.global_scope().find_var('table').get_selected_rows()
    assert list(rows.rows()) == [40, 7, 99]
    np.testing.assert_array_equal(np.array(rows.get_tensor())[:3], [[0, 1], [2, 3], [4, 5]])


def test_a_process_with_another_token_is_refused():
    endpoint = '127.0.0.1:%d' % ps_job.free_ports(1)[0]
    server = start('server', endpoint, env={'FLAGS_job_token': 'ours', 'FLAGS_rpc_deadline': '4000'})
    trainer = start('trainer', endpoint, '/tmp', env={'FLAGS_job_token': 'theirs'})
    trained, served = ps_job.wait_for([trainer, server])
    assert trained.code == 1 and 'another FLAGS_job_token' in trained.err
    assert served.code == 1 and 'trainers 0 have not come' in served.err


def test_ranks_with_other_tokens_do_not_meet():
    job = {rank: {**os.environ, 'FLAGS_job_token': str(rank), 'PADDLE_TRAINER_ID': str(rank)} for rank in (0, 1)}
    endpoints = ','.join('127.0.0.1:%d' % port for port in ps_job.free_ports(2))
    program = 'import paddle.distributed; paddle.distributed.init_parallel_env()'
    processes = [subprocess.Popen([sys.executable, '-c', program], text=True, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE,
                                  env={**env, 'PADDLE_TRAINERS_NUM': '2', 'PADDLE_TRAINER_ENDPOINTS': endpoints,
                                       'FLAGS_rpc_deadline': '3000'}) for env in job.values()]
    first, second = ps_job.wait_for(processes)
    assert first.code == 1 and 'rank 1 was started with another FLAGS_job_token' in first.err
    assert second.code == 1 and 'rank 0 has not called' in second.err


def test_plain_text_to_other_machines_can_be_refused():
    program = fluid.Program()
    program.global_block().append_op(type='checkpoint_notify', inputs={}, outputs={}, attrs={
        'epmap': ['192.0.2.1:7'], 'dir': '/tmp', 'lookup_table': 'table'})
    fluid.set_flags({'FLAGS_plaintext': 'refuse'})
    try:
        fluid.Executor(fluid.CPUPlace()).run(program)
        raise AssertionError('it was sent')
    except RuntimeError as error:
        assert 'what goes to 192.0.2.1:7 is not encrypted' in str(error)
    finally:
        fluid.set_flags({'FLAGS_plaintext': 'warn'})

