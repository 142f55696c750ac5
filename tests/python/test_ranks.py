"""Ranks as real processes, started by the launcher: together they train as one process does."""
import functools

import numpy as np
import pytest

import rank_job


@functools.lru_cache(None)
def alone(mode='compiled'):
    return rank_job.job(1, mode).said[0]['losses']


def mean_losses(ranks):
    return np.mean([each['losses'] for each in ranks], axis=0)


@pytest.mark.parametrize('mode, ranks', [('compiled', 2), ('compiled', 4), ('parallel_executor', 2),
                                         ('grad_allreduce', 4), ('fleet', 2), ('fleet_collective', 2)])
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


def test_two_runs_give_the_same_bits():
    assert rank_job.job(2, 'compiled').said == rank_job.job(2, 'compiled').said
