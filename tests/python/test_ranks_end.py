"""How jobs of ranks end: who is named, and with which exit code."""
import rank_job


def test_a_killed_rank_is_named_by_all_and_by_the_launcher():
    job = rank_job.job(3, 'compiled', env={'END_BY': '1,2,kill'})
    assert job.code == 1
    assert 'rank 1 was ended by SIGKILL first' in job.err
    for rank in (0, 2):
        assert 'rank 1 is lost: its process ended without leaving' in job.logs[rank]


def test_the_exception_of_a_rank_is_the_cause_that_all_name():
    job = rank_job.job(2, 'grad_allreduce', env={'END_BY': '1,2,raise'})
    assert job.code == 1
    assert 'the data ended' in job.err
    assert "rank 1's process ended with ValueError: the data ended" in job.logs[0]


def test_a_rank_that_is_silent_is_lost():
    job = rank_job.job(2, 'compiled', env={'END_BY': '1,2,stop', 'FLAGS_heartbeat_limit': '3'})
    assert job.code == 1
    assert 'rank 1 is lost: nothing was heard of it for 3' in job.logs[0]


def test_a_rank_that_runs_fewer_steps_is_named():
    job = rank_job.job(2, 'compiled', env={'END_BY': '1,4,leave'})
    assert job.code == 1
    assert 'rank 1 has left' in job.logs[0] and 'same number of steps' in job.logs[0]


def test_an_exchange_has_a_limit_of_its_own():
    late = {'END_BY': '1,2,sleep'}
    assert rank_job.job(2, 'compiled', env=late).code == 0
    job = rank_job.job(2, 'compiled', env={**late, 'FLAGS_collective_limit': '1000'})
    assert job.code == 1
    assert 'FLAGS_collective_limit' in job.logs[0] and 'for ranks 1 (at #' in job.logs[0]


def test_a_program_for_several_ranks_does_not_train_alone():
    job = rank_job.job(2, 'alone')
    assert job.code == 1
    assert 'was transpiled for 2 trainers and is run by one' in job.err


def test_another_number_of_trainers_is_refused():
    job = rank_job.job(2, 'miscounted')
    assert 'was transpiled for 2 trainers (nccl2), but num_trainers is 3' in job.err


def test_another_number_of_places_than_the_others_have_is_refused_by_rank():
    job = rank_job.job(2, 'uneven')
    assert job.code == 1
    # Each finds it by itself, unless the other one has found it before and says so.
    for log in job.logs:
        assert 'rank 1 trains on 2 devices and rank 0 on 1' in log or 'rank 0 trains on 1 devices and rank 1 on 2' in log


def test_training_before_the_startup_program_says_so():
    job = rank_job.job(2, 'forgot_startup')
    assert 'the processes have not met' in job.err and 'startup program' in job.err
