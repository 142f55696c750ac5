"""Tables whose rows are made on first use, and what has no room in memory goes to a store on the disk."""
import numpy as np

import ps_job


def mean_losses(trainers):
    return np.mean([each.said['losses'] for each in trainers], axis=0)


# 2,000 rows of each trainer's batch and 30,000 of the table: a MB holds a quarter of a server's.
def limited(directory, **more):
    return {'FLAGS_table_memory': '1', 'FLAGS_table_directory': str(directory), **more}


def test_a_table_larger_than_memory_trains_as_one_in_memory(tmp_path):
    local = ps_job.local('sync_table', steps=8)
    for env in ({'FLAGS_table_memory': '100'}, limited(tmp_path)):
        served, trained = ps_job.job(1, 2, 'sync_table', steps=8, everywhere=env)
        np.testing.assert_allclose(mean_losses(trained), local, rtol=1e-5)
        assert served[0].code == 0
    assert list(tmp_path.iterdir()) == []  # the store was there, and is gone


def test_where_the_store_cannot_be_the_server_says_so(tmp_path):
    (tmp_path / 'file').write_text('not a directory')
    served, trained = ps_job.job(1, 1, 'sync_table', steps=8, everywhere=limited(tmp_path / 'file'))
    assert served[0].code == 1 and 'Not a directory' in served[0].err and trained[0].code == 1


def test_rows_are_saved_with_those_that_nobody_has_asked_for(tmp_path):
    saved = []
    for name, env in (('whole', {}), ('rows', limited(tmp_path / 'store'))):
        ps_job.job(2, 1, 'sync_table', steps=3, everywhere=env, env={0: {'SAVE_TO': str(tmp_path / name)}})
        saved.append((tmp_path / name / 'table').read_bytes())
    assert saved[0] == saved[1]


def test_a_server_with_rows_on_disk_goes_on_from_its_store(tmp_path):
    env = limited(tmp_path / 'store', FLAGS_server_snapshot=str(tmp_path / 'snapshots'), FLAGS_server_snapshot_seconds='0')
    calm = ps_job.job(2, 2, 'sync_table', steps=8)[1]
    served, trained = ps_job.job(2, 2, 'sync_table', steps=8, everywhere=env, comes_again=True,
                                 env={0: {'END_AT': '5', 'END_BY': 'SERVER'}})
    assert [each.said for each in trained] == [each.said for each in calm]
    assert [each.code for each in served] == [0, 0]
    assert list((tmp_path / 'snapshots').iterdir()) == []


def test_an_optimizer_that_changes_all_rows_is_refused(tmp_path):
    served, trained = ps_job.job(1, 1, 'adam_table', steps=3, everywhere={'FLAGS_table_memory': '100'})
    assert served[0].code == 1 and 'changes also rows that a batch does not name' in served[0].err
    assert 'lazy_mode' in served[0].err and trained[0].code == 1
