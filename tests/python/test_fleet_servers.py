"""Fleets with parameter servers, started by launch_ps: they train, are saved, and go on elsewhere."""
import functools
import json
import os
import pathlib
import tempfile

import numpy as np
import pytest

import rank_job

WORKER = str(pathlib.Path(__file__).with_name('fleet_worker.py'))


def job(servers, trainers, strategy, steps='0-4', directory=None, env=None):
    """What the trainers say of their losses."""
    with tempfile.TemporaryDirectory() as logs:
        ports = ','.join(f'127.0.0.1:{port}' for port in free_ports(servers))
        code, err = rank_job.launch(
            'launch_ps', ['--endpoints', ports, '--worker_num', trainers, '--log_dir', logs],
            [WORKER, strategy, steps] + ([directory] if directory else []), env)
        assert code == 0, err
        said = lambda name: json.loads((pathlib.Path(logs) / name).read_text().splitlines()[-1])
        assert [said(f'serverlog.{i}')['served'] for i in range(servers)] == list(range(servers))
        return [said(f'workerlog.{i}')['losses'] for i in range(trainers)]


def free_ports(count):
    from paddle.distributed.supervise import free_ports
    return free_ports(count)


@functools.lru_cache(None)
def by_one(steps='0-4'):
    return job(1, 1, 'sync', steps)[0]


@pytest.mark.parametrize('servers, trainers, strategy', [(2, 2, 'sync'), (3, 4, 'none'), (2, 2, 'config')])
def test_trainers_in_step_are_one_trainer(servers, trainers, strategy):
    losses = np.mean(job(servers, trainers, strategy), axis=0)
    np.testing.assert_allclose(losses, by_one(), rtol=1e-5)


@pytest.mark.parametrize('strategy', ['async', 'half_async', 'geo'])
def test_trainers_out_of_step_learn(strategy):
    for losses in job(2, 2, strategy, '0-60'):
        assert np.mean(losses[-4:]) < 0.7 * np.mean(losses[:4])


def test_training_goes_on_with_other_servers_and_trainers(tmp_path):
    whole = by_one('0-8')
    saved = str(tmp_path / 'saved')
    first = np.mean(job(2, 2, 'sync', '0-4', saved), axis=0)
    assert {'table', 'w1', 'w2', 'b1', 'b2'} <= set(os.listdir(saved))
    second = np.mean(job(3, 1, 'sync', '4-8', saved), axis=0)
    np.testing.assert_allclose(np.concatenate([first, second]), whole, rtol=1e-5)
