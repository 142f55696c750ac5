"""Parameter servers as real processes: sync training is local training on the whole batch."""
import numpy as np
import pytest

import ps_job


def mean_losses(trainers):
    return np.mean([each.said['losses'] for each in trainers], axis=0)


@pytest.mark.parametrize('servers, trainers', [(1, 1), (2, 2)])
def test_sync_training_equals_local_training(servers, trainers):
    served, trained = ps_job.job(servers, trainers)
    np.testing.assert_allclose(mean_losses(trained), ps_job.local(), rtol=1e-5)
    assert [each.said['served'] for each in served] == list(range(servers))
    assert len({str(each.said['weights']) for each in trained}) == 1


def test_two_runs_give_the_same_bits():
    first, second = (ps_job.job(2, 2)[1] for _ in range(2))
    assert [each.said for each in first] == [each.said for each in second]


def test_rows_looked_up_on_servers_train_as_local_ones():
    _, trained = ps_job.job(2, 2, 'sync_sparse')
    np.testing.assert_allclose(mean_losses(trained), ps_job.local('sync_sparse'), rtol=1e-5)


@pytest.mark.parametrize('mode', ['async', 'async_dc'])
def test_async_training_converges(mode):
    _, trained = ps_job.job(2, 2, mode, steps=40)
    for each in trained:
        losses = each.said['losses']
        assert np.mean(losses[-4:]) < 0.5 * np.mean(losses[:4])


def test_whole_variables_train_as_cut_ones():
    _, trained = ps_job.job(2, 2, 'sync_whole')
    np.testing.assert_allclose(mean_losses(trained), ps_job.local(), rtol=1e-5)


@pytest.mark.parametrize('mode', ['sync', 'sync_sparse'])
def test_lost_answers_are_asked_for_again_and_nothing_counts_twice(mode):
    calm, rough = (ps_job.job(2, 2, mode, everywhere={'FLAGS_drop_answers': share})[1]
                   for share in ('', '0.3,7'))
    assert [each.said for each in rough] == [each.said for each in calm]
