"""A job that was saved goes on as if it had not stopped: parameters, optimizer states and the schedule, to the bit."""
import pytest

import ps_job


@pytest.mark.parametrize('mode', ['sync', 'decay', 'decay_sparse', 'sync_table'])
def test_a_job_goes_on_with_another_number_of_servers_and_the_same_bits(tmp_path, mode):
    _, whole = ps_job.job(2, 2, mode, steps=6)
    ps_job.job(2, 2, mode, steps=3, env={0: {'SAVE_TO': str(tmp_path)}})
    _, resumed = ps_job.job(3, 2, mode, steps=6, everywhere={'LOAD_FROM': str(tmp_path), 'FIRST_STEP': '3'})
    for each, other in zip(whole, resumed):
        assert other.said['losses'] == each.said['losses'][3:]
        assert other.said['weights'] == each.said['weights']
