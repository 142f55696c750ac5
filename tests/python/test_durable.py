"""Saves are all old or all new whatever happens to the writer, and damage is noticed."""
import os
import threading
import time

import numpy
import paddle.fluid as fluid
import pytest

import kill_checks


def test_killed_writers_leave_one_save(tmp_path):
    assert kill_checks.kill_writers(str(tmp_path), 24, seed=1) > 0


def test_a_reader_never_sees_a_mix(tmp_path):
    main, inference, target = kill_checks.build()
    way = kill_checks.ways(main, inference, target)['persistables, split']
    place = str(tmp_path / 'model')
    child = None
    with fluid.scope_guard(fluid.Scope()):
        kill_checks.fill(fluid.global_scope(), main, 0)
        way.save(place)
    heard, told = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            kill_checks._write_for_ever(way, place, 1, told)
        finally:
            os._exit(1)
    found = set()
    try:
        end = time.monotonic() + 60
        while len(found) < 4 and time.monotonic() < end:
            scope = fluid.Scope()
            with fluid.scope_guard(scope):
                way.load(place)
                found.add(kill_checks.number_of(scope, main))
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)
        os.close(heard)
        os.close(told)
    assert len(found) == 4


def test_two_writers_take_turns(tmp_path):
    main, inference, target = kill_checks.build()
    ways = kill_checks.ways(main, inference, target)
    place = str(tmp_path / 'model')
    with fluid.scope_guard(fluid.Scope()):
        kill_checks.fill(fluid.global_scope(), main, 3)
    scope = fluid.Scope()
    with fluid.scope_guard(scope):
        kill_checks.fill(scope, main, 3)
        problems = []

        def write(name):
            try:
                for _ in range(10):
                    ways[name].save(place)
            except Exception as problem:
                problems.append(problem)
        threads = [threading.Thread(target=write, args=[name])
                   for name in ('persistables, combined', 'state')]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not problems
    assert sorted(os.listdir(place)) == ['.trireme.sums', 'all', 'net.pdmodel', 'net.pdopt', 'net.pdparams']


@pytest.mark.parametrize('name, file', [('persistables, split', 'fc_3.w_0'), ('persistables, combined', 'all'),
                                        ('model, split', 'fc_3.w_0'), ('model, split', '__model__'),
                                        ('model, combined', 'p'), ('state', 'net.pdparams'),
                                        ('state', 'net.pdopt'), ('static model', 'net.pdiparams')])
def test_a_damaged_file_is_noticed(tmp_path, name, file):
    way = kill_checks.ways(*kill_checks.build())[name]
    place = str(tmp_path / 'model')
    scope = fluid.Scope()
    with fluid.scope_guard(scope):
        kill_checks.fill(scope, way.main, 1)
        way.save(place)
        path = os.path.join(place, file)
        whole = bytearray(open(path, 'rb').read())
        for damaged in (whole + b'x', whole[:-1], whole[:-5] + bytes([whole[-5] ^ 1]) + whole[-4:]):
            open(path, 'wb').write(damaged)
            with pytest.raises(RuntimeError, match='is damaged: it is not what was saved there') as error:
                way.load(place)
            assert path in str(error.value) and 'fix:' in str(error.value)
            assert kill_checks.number_of(scope, way.main) == 1
        open(path, 'wb').write(whole)
        way.load(place)


@pytest.mark.parametrize('name, file', [('persistables, split', 'fc_3.w_0'), ('persistables, combined', 'all'),
                                        ('state', 'net.pdparams'), ('static model', 'net.pdiparams')])
def test_trailing_bytes_are_refused_without_checksums(tmp_path, name, file):
    way = kill_checks.ways(*kill_checks.build())[name]
    place = str(tmp_path / 'model')
    with fluid.scope_guard(fluid.Scope()):
        kill_checks.fill(fluid.global_scope(), way.main, 1)
        way.save(place)
        os.remove(os.path.join(place, '.trireme.sums'))
        way.load(place)
        with open(os.path.join(place, file), 'ab') as end:
            end.write(b'\0\0\0')
        with pytest.raises(RuntimeError, match='3 bytes after'):
            way.load(place)


def test_what_others_keep_in_the_directory_stays(tmp_path):
    way = kill_checks.ways(*kill_checks.build())['persistables, split']
    (tmp_path / 'logs').mkdir()
    (tmp_path / 'logs' / 'a.txt').write_text('mine')
    (tmp_path / 'fc_0.w_0').write_text('old')
    os.chmod(tmp_path / 'fc_0.w_0', 0o640)
    with fluid.scope_guard(fluid.Scope()):
        kill_checks.fill(fluid.global_scope(), way.main, 1)
        way.save(str(tmp_path))
    assert (tmp_path / 'logs' / 'a.txt').read_text() == 'mine'
    assert os.stat(tmp_path / 'fc_0.w_0').st_mode & 0o777 == 0o640


def test_a_name_cannot_lead_out_of_the_directory(tmp_path):
    main = fluid.Program()
    main.global_block().create_parameter(name='../w', shape=[2], dtype='float32')
    with fluid.scope_guard(fluid.Scope()):
        fluid.global_scope().var('../w').get_tensor().set(numpy.zeros(2, 'float32'), fluid.CPUPlace())
        with pytest.raises(ValueError, match='leads out of the directory'):
            fluid.io.save_params(None, str(tmp_path / 'a'), main)
    assert os.listdir(tmp_path / 'a') == []
