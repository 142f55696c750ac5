"""How jobs with parameter servers end: who leaves, who is lost, and what the others say."""
import ps_job


def ending(trainer, how, at=3):
    return {trainer: {'END_AT': str(at), 'END_BY': how}}


def test_a_trainer_that_leaves_early_lets_the_others_go_on():
    served, trained = ps_job.job(2, 2, steps=6, env=ending(1, 'leave'))
    assert [len(each.said['losses']) for each in trained] == [6, 3]
    assert [each.code for each in served] == [0, 0]


def test_a_trainer_that_leaves_before_its_first_step_adds_nothing():
    served, trained = ps_job.job(1, 2, steps=3, env=ending(1, 'leave', at=0))
    assert [len(each.said['losses']) for each in trained] == [3, 0]
    assert served[0].code == 0


def test_a_killed_trainer_ends_the_job_and_is_named():
    served, trained = ps_job.job(2, 2, steps=6, env=ending(1, 'kill'))
    assert trained[1].code == -9
    for each in served + trained[:1]:
        assert each.code == 1
        assert 'trainer 1 is lost: its process ended without leaving' in each.err


def test_the_exception_of_a_trainer_is_the_cause_that_all_name():
    served, trained = ps_job.job(2, 2, steps=6, env=ending(1, 'raise'))
    for each in served + trained[:1]:
        assert each.code == 1
        assert 'trainer 1 is lost: its process ended with ValueError: the data ended' in each.err


def test_where_asked_for_the_others_go_on_without_a_lost_trainer():
    served, trained = ps_job.job(2, 2, steps=6, env=ending(1, 'kill'),
                                 everywhere={'FLAGS_lost_trainer': 'shrink'})
    assert len(trained[0].said['losses']) == 6
    for each in served:
        assert each.code == 0, each.err
        assert 'trainer 1 is lost' in each.err


def test_a_killed_server_ends_the_job_and_is_named():
    served, trained = ps_job.job(2, 2, steps=6, env=ending(0, 'SERVER'))
    assert served[0].code == -9
    for each in trained:
        assert each.code == 1
        assert 'cannot be reached' in each.err or 'is lost' in each.err
    assert any('cannot be reached' in each.err for each in trained)
    assert served[1].code == 1


def test_a_trainer_that_is_silent_is_lost_and_who_waits_for_it_is_said():
    served, trained = ps_job.job(1, 2, steps=6, env=ending(1, 'stop'),
                                 everywhere={'FLAGS_hang_watchdog': '1', 'FLAGS_heartbeat_limit': '7'})
    assert trained[1].code == -9
    assert 'trainer 1 is lost: nothing was heard of it for' in served[0].err
    assert 'trainer 0 waits since' in served[0].err and 'trainer 1 is waited for' in served[0].err
    assert trained[0].code == 1 and 'trainer 1 is lost' in trained[0].err
