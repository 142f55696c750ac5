"""Ranks as real processes, started by the launcher: together they train as one process does."""
import functools
import shutil

import numpy as np
import pytest

import rank_job


@functools.lru_cache(None)
def alone(mode='compiled'):
    return rank_job.job(1, mode).said[0]['losses']


def mean_losses(ranks):
    return np.mean([each['losses'] for each in ranks], axis=0)


@pytest.mark.parametrize('mode, ranks', [('compiled', 2), ('compiled', 4), ('parallel_executor', 2),
                                         ('grad_allreduce', 4), ('fleet', 2), ('fleet_collective', 2),
                                         ('fleet_local_sgd', 2)])
def test_ranks_train_as_one_process(mode, ranks):
    said = rank_job.job(ranks, mode).said
    np.testing.assert_allclose(mean_losses(said), alone(), rtol=2e-5)
    assert len({str(each['weights']) for each in said}) == 1


def test_replicas_of_two_processes_train_as_one():
    said = rank_job.job(2, 'compiled', env={'CPU_NUM': '2'}).said
    np.testing.assert_allclose(mean_losses(said), alone(), rtol=2e-5)


def test_ranks_with_rows_of_a_table_train_as_one_process():
    said = rank_job.job(2, 'sparse').said
    np.testing.assert_allclose(mean_losses(said), alone('sparse'), rtol=2e-5)


def test_the_average_of_parameters_is_that_of_their_updates():
    said = rank_job.job(2, 'local_sgd').said
    assert len({str(each['weights']) for each in said}) == 1
    np.testing.assert_allclose(mean_losses(said), alone('sgd'), rtol=2e-5)


def test_nodes_of_two_ranks_train_as_one_process():
    nodes, flat = (rank_job.job(4, mode).said for mode in ('hierarchical', 'compiled'))
    assert len({str(each['weights']) for each in nodes}) == 1
    np.testing.assert_allclose(mean_losses(nodes), alone(), rtol=2e-5)
    for name in nodes[0]['weights']:
        np.testing.assert_allclose(array(nodes[0]['weights'][name]), array(flat[0]['weights'][name]), atol=2e-6)


def array(text):
    return np.frombuffer(bytes.fromhex(text), 'float32')


def gradients(weights, fed):
    """Of the mean square error of two layers, by hand."""
    w1, w2 = weights['w1'].reshape(8, 16), weights['w2'].reshape(16, 1)
    hidden = np.tanh(fed['x'] @ w1 + weights['b1'])
    error = hidden @ w2 + weights['b2'] - fed['y']
    out = 2 * error / error.size
    before = (out @ w2.T) * (1 - hidden ** 2)
    found = {'w2': hidden.T @ out, 'b2': out.sum(0), 'w1': fed['x'].T @ before, 'b1': before.sum(0)}
    return np.mean(error ** 2), {name: each.ravel() for name, each in found.items()}


def test_local_sgd_is_every_ranks_own_optimizer_and_the_average_of_what_they_made():
    """Adagrad's steps depend on what each rank has seen: the average of gradients is something else."""
    said = rank_job.job(4, 'local_adagrad').said
    weights = {name: array(text).astype('float64') for name, text in said[0]['initial'].items()}
    squares = [{name: np.zeros_like(each) for name, each in weights.items()} for _ in range(4)]
    for step in range(6):
        made = []
        for rank in range(4):
            loss, gradient = gradients(weights, rank_worker_feed(step, rank, 4))
            np.testing.assert_allclose(said[rank]['losses'][step], loss, rtol=2e-5)
            mine = {}
            for name, each in gradient.items():
                squares[rank][name] += each ** 2
                mine[name] = weights[name] - 0.05 * each / (np.sqrt(squares[rank][name]) + 1e-6)
            made.append(mine)
        weights = {name: np.mean([mine[name] for mine in made], axis=0) for name in weights}
    for name, each in weights.items():
        np.testing.assert_allclose(array(said[3]['weights'][name]), each, atol=3e-5)


def rank_worker_feed(step, part, parts):
    draw = np.random.RandomState(100 + step % 4)
    y = draw.uniform(-1, 1, (16, 1)).astype('float32')
    x = draw.uniform(-1, 1, (16, 8)).astype('float32')
    share = slice(part * 16 // parts, (part + 1) * 16 // parts)
    return {'x': x[share], 'y': y[share]}


def test_a_killed_job_goes_on_with_the_same_bits(tmp_path):
    """Dropout, momentum and a schedule included; and with another number of ranks it goes on as well."""
    whole = rank_job.job(2, 'fleet_dropout', env={'CHECKPOINTS': str(tmp_path / 'whole')}).said
    kept = {'CHECKPOINTS': str(tmp_path / 'killed')}
    assert rank_job.job(2, 'fleet_dropout', env={**kept, 'END_BY': '1,5,kill'}).code == 1
    shutil.copytree(tmp_path / 'killed', tmp_path / 'four')
    again = rank_job.job(2, 'fleet_dropout', env=kept).said
    assert again[0]['first'] == 4 and whole[0]['first'] == 0
    assert [each['weights'] for each in again] == [each['weights'] for each in whole]
    assert [each['losses'] for each in again] == [each['losses'][4:] for each in whole]
    four = rank_job.job(4, 'fleet_dropout', env={'CHECKPOINTS': str(tmp_path / 'four')}).said
    assert four[0]['first'] == 4
    np.testing.assert_allclose(mean_losses(four), mean_losses(again), rtol=2e-5)


def test_two_runs_give_the_same_bits():
    assert rank_job.job(2, 'compiled').said == rank_job.job(2, 'compiled').said
