"""fluid.contrib's files on HDFS, with a hadoop that works on a local folder in place of the real one."""
import os
import stat

import pytest

from paddle.fluid.contrib import HDFSClient, multi_download, multi_upload

# What `hadoop fs [-Dname=value...] COMMAND` does that the client calls; / is the folder beside it. It keeps a list of calls.
HADOOP = '''#!/bin/sh
here=$(dirname "$0")/../files; echo "$*" >>"$here/../calls"
shift; while [ "${1#-D}" != "$1" ]; do shift; done
command=$1; shift
case $command in
  -test) test "$1" "$here$2" ;;
  -rm) rm -r "$here$2" ;;
  -mv) mv "$here$1" "$here$2" ;;
  -mkdir) mkdir -p "$here$2" ;;
  -put) cp -r "$1" "$here$2" ;;
  -get) cp "$here$1" "$2" ;;
  -ls) deep=1; [ "$1" = -R ] && { deep=9; shift; }
       echo "Found some items"
       find "$here$1" -mindepth 1 -maxdepth $deep -printf "%M 1 me group %s %TY-%Tm-%Td %TH:%TM /%P\\n" | sed "s| /| $1/|;s|//|/|" ;;
esac
'''


@pytest.fixture
def client(tmp_path):
    (tmp_path / 'bin').mkdir()
    (tmp_path / 'files' / 'd' / 'sub').mkdir(parents=True)
    for name, day in (('d/new', 9), ('d/old', 2), ('d/sub/middle', 5)):
        (tmp_path / 'files' / name).write_text(name)
        os.utime(tmp_path / 'files' / name, (day * 86400, day * 86400))
    hadoop = tmp_path / 'bin' / 'hadoop'
    hadoop.write_text(HADOOP)
    hadoop.chmod(hadoop.stat().st_mode | stat.S_IEXEC)
    return HDFSClient(str(tmp_path), {'fs.default.name': 'hdfs://h:1'})


def test_commands_carry_the_settings(client, tmp_path):
    assert client.is_exist('/d') and client.is_dir('/d') and not client.is_dir('/d/new') and not client.is_exist('/x')
    assert (tmp_path / 'calls').read_text().splitlines()[0] == 'fs -Dfs.default.name=hdfs://h:1 -test -e /d'


def test_lists_are_of_files_the_oldest_first(client):
    assert sorted(client.ls('/d')) == ['/d/new', '/d/old', '/d/sub']
    assert client.lsr('/d') == ['/d/old', '/d/sub/middle', '/d/new']
    assert '/d/sub' in client.lsr('/d', only_file=False)
    assert client.ls('/x') == client.lsr('/x') == []


def test_moves_keep_what_is_there(client):
    assert not client.rename('/d/new', '/d/old') and not client.rename('/x', '/y')
    assert client.rename('/d/new', '/d/old', overwrite=True) and client.ls('/d/sub') and not client.is_exist('/d/new')
    assert client.delete('/d') and not client.is_exist('/d') and client.delete('/d')


def test_files_go_up_and_come_down(client, tmp_path):
    (tmp_path / 'mine').write_text('first')
    assert client.upload('/a/b', str(tmp_path / 'mine'))
    (tmp_path / 'mine').write_text('second')
    assert not client.upload('/a/b', str(tmp_path / 'mine'))
    assert client.upload('/a/b', str(tmp_path / 'mine'), overwrite=True)
    assert client.download('/a/b/mine', str(tmp_path / 'back')) and (tmp_path / 'back').read_text() == 'second'
    assert not client.download('/d/old', str(tmp_path / 'back')) and (tmp_path / 'back').read_text() == 'second'
    assert client.download('/d/old', str(tmp_path / 'back'), overwrite=True) and (tmp_path / 'back').read_text() == 'd/old'
    assert not client.download('/x', str(tmp_path / 'other'))
    with pytest.raises(FileNotFoundError, match='cannot be uploaded'):
        client.upload('/a', str(tmp_path / 'nothing'))


def test_each_trainer_gets_its_share_and_folders_go_up_whole(client, tmp_path):
    parts = [multi_download(client, '/d', str(tmp_path / 'down'), trainer, 2) for trainer in (0, 1)]
    names = sorted(os.path.relpath(path, tmp_path / 'down') for part in parts for path in part)
    assert names == ['new', 'old', 'sub/middle'] and (tmp_path / 'down/sub/middle').read_text() == 'd/sub/middle'
    multi_upload(client, '/up', str(tmp_path / 'down'))
    assert sorted(client.lsr('/up', sort=False)) == ['/up/new', '/up/old', '/up/sub/middle']
    with pytest.raises(OSError, match='3 of 3 files were not copied'):
        multi_upload(client, '/up', str(tmp_path / 'down'))
    with pytest.raises(ValueError, match='trainer_id is 2 of 2'):
        multi_download(client, '/d', str(tmp_path), 2, 2)
    with pytest.raises(NotImplementedError, match='sync=False'):
        multi_upload(client, '/up', str(tmp_path / 'down'), sync=False)


def test_a_folder_without_hadoop_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match='is not there: give HDFSClient'):
        HDFSClient(str(tmp_path), {}).is_exist('/d')
