"""Ranks with a network between them: each in a network namespace of its own, where these may be made."""
import json
import os
import subprocess
import sys

import numpy as np
import pytest

import rank_job

ADDRESSES = ['10.231.77.1', '10.231.77.2']


def ip(*words):
    return subprocess.run(['ip', *words], capture_output=True, text=True, timeout=20)


@pytest.fixture
def namespaces():
    """Two, joined by a cable."""
    names = [f'trireme{os.getpid()}{end}' for end in 'ab']
    cables = [f't{os.getpid()}{end}' for end in 'ab']
    try:
        made = [ip('netns', 'add', name) for name in names]
        made.append(ip('link', 'add', cables[0], 'netns', names[0], 'type', 'veth', 'peer', 'name', cables[1],
                       'netns', names[1]))
        for name, cable, address in zip(names, cables, ADDRESSES):
            made += [ip('-n', name, 'addr', 'add', f'{address}/24', 'dev', cable),
                     ip('-n', name, 'link', 'set', cable, 'up'), ip('-n', name, 'link', 'set', 'lo', 'up')]
        failed = [each.stderr.strip() for each in made if each.returncode]
        if failed:
            pytest.skip(f'no network namespaces here: {failed[0]}')
        yield names
    finally:
        for name in names:
            ip('netns', 'delete', name)


def start(namespace, rank, env):
    endpoints = [f'{address}:6170' for address in ADDRESSES]
    own = {'PADDLE_TRAINER_ID': str(rank), 'PADDLE_TRAINERS_NUM': '2', 'CPU_NUM': '1', 'OMP_NUM_THREADS': '1',
           'PADDLE_TRAINER_ENDPOINTS': ','.join(endpoints), 'PADDLE_CURRENT_ENDPOINT': endpoints[rank],
           'FLAGS_rpc_deadline': '20000'}
    return subprocess.Popen(['ip', 'netns', 'exec', namespace, sys.executable, rank_job.WORKER, 'compiled', '6'],
                            env={**os.environ, **own, **env}, text=True, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE)


def job(namespaces, env):
    """(exit code, stdout, stderr) of each."""
    processes = [start(name, rank, env) for rank, name in enumerate(namespaces)]
    try:
        return [(*process.communicate(timeout=60), process.returncode) for process in processes]
    finally:
        for process in processes:
            process.kill()


def test_ranks_with_a_network_between_them_train_as_one_process(namespaces):
    ended = job(namespaces, {})
    assert [code for _, _, code in ended] == [0, 0], ended
    said = [json.loads(out.splitlines()[-1]) for out, _, _ in ended]
    alone = rank_job.job(1, 'compiled').said[0]['losses']
    np.testing.assert_allclose(np.mean([each['losses'] for each in said], axis=0), alone, rtol=2e-5)
    assert said[0]['weights'] == said[1]['weights']
    for _, err, _ in ended:
        assert err.count('is not encrypted') == 1
    for _, err, code in job(namespaces, {'FLAGS_plaintext': 'refuse'}):
        assert code == 1 and 'FLAGS_tls_certificate' in err
