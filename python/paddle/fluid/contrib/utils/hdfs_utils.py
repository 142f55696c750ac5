"""Files on HDFS: the commands of `hadoop fs`, and many files at a time."""
import concurrent.futures
import os
import shutil
import subprocess
import zipfile

__all__ = ['HDFSClient', 'multi_download', 'multi_upload']


class HDFSClient:
    """Runs hadoop_home/bin/hadoop; configs are given to each command as -Dname=value."""

    def __init__(self, hadoop_home, configs):
        self.pre_commands = [os.path.join(hadoop_home, 'bin', 'hadoop'), 'fs']
        self.pre_commands += [f'-D{name}={value}' for name, value in (configs or {}).items()]

    def _run(self, *command, times=1):
        """(whether the command succeeded, what it printed)."""
        for _ in range(times):
            try:
                done = subprocess.run([*self.pre_commands, *command], stdout=subprocess.PIPE, text=True)
            except FileNotFoundError:
                raise FileNotFoundError(f'{self.pre_commands[0]} is not there: give HDFSClient the folder that hadoop is '
                                        'installed in as hadoop_home') from None
            if done.returncode == 0:
                return True, done.stdout
        return False, done.stdout

    def _is(self, flag, path):
        return self._run('-test', flag, path)[0]

    def _listed(self, *command):
        """(path, its mode, when it was changed) of each line that names a file or folder."""
        lines = [line.split(None, 7) for line in self._run(*command)[1].splitlines()]
        return [(parts[7], parts[0], parts[5:7]) for parts in lines if len(parts) == 8]

    def is_exist(self, hdfs_path=None):
        return self._is('-e', hdfs_path)

    def is_dir(self, hdfs_path=None):
        return self._is('-d', hdfs_path)

    def delete(self, hdfs_path):
        """Whether the file or folder is not there any more."""
        return not self.is_exist(hdfs_path) or self._run('-rm', '-r', hdfs_path)[0]

    def rename(self, hdfs_src_path, hdfs_dst_path, overwrite=False):
        """Whether it was moved; what is there stays, unless it may be overwritten."""
        if not self.is_exist(hdfs_src_path) or (self.is_exist(hdfs_dst_path) and not overwrite):
            return False
        return (not overwrite or self.delete(hdfs_dst_path)) and self._run('-mv', hdfs_src_path, hdfs_dst_path)[0]

    def makedirs(self, hdfs_path):
        return self._run('-mkdir', '-p', hdfs_path)[0]

    @staticmethod
    def make_local_dirs(local_path):
        os.makedirs(local_path, exist_ok=True)

    def ls(self, hdfs_path):
        """Paths of what is in a folder."""
        return [path for path, _, _ in self._listed('-ls', hdfs_path)] if self.is_exist(hdfs_path) else []

    def lsr(self, hdfs_path, only_file=True, sort=True):
        """Paths of what is in a folder and in those below it, the oldest first."""
        if not self.is_exist(hdfs_path):
            return []
        found = [each for each in self._listed('-ls', '-R', hdfs_path) if not (only_file and each[1].startswith('d'))]
        return [path for path, _, _ in (sorted(found, key=lambda each: each[2]) if sort else found)]

    def upload(self, hdfs_path, local_path, overwrite=False, retry_times=5):
        """Whether the file, or the folder, went up into hdfs_path."""
        if not os.path.exists(local_path):
            raise FileNotFoundError(f'{local_path} is not there, so it cannot be uploaded')
        target = hdfs_path.rstrip('/') + '/' + os.path.basename(local_path.rstrip('/'))
        if self.is_exist(target):
            if not overwrite or not self.delete(target):
                return False
        return self.makedirs(hdfs_path) and self._run('-put', local_path, hdfs_path, times=max(retry_times, 1))[0]

    def download(self, hdfs_path, local_path, overwrite=False, unzip=False):
        """Whether the file came down to local_path; with unzip, what is in it stands beside it."""
        if not self.is_exist(hdfs_path) or self.is_dir(hdfs_path):
            return False
        target = os.path.join(local_path, os.path.basename(hdfs_path)) if os.path.isdir(local_path) else local_path
        if os.path.exists(target):
            if not overwrite:
                return False
            shutil.rmtree(target) if os.path.isdir(target) else os.remove(target)
        if not self._run('-get', hdfs_path, local_path)[0]:
            return False
        if unzip and zipfile.is_zipfile(target):
            with zipfile.ZipFile(target) as archive:
                archive.extractall(os.path.dirname(target) or '.')
        return True


def _at_a_time(workers, function, jobs):
    """Runs function on each job; an error that names those of them that failed."""
    with concurrent.futures.ThreadPoolExecutor(max(workers, 1)) as pool:
        done = list(pool.map(lambda job: function(*job), jobs))
    failed = [' -> '.join(job) for job, well in zip(jobs, done) if not well]
    if failed:
        raise OSError(f'{len(failed)} of {len(jobs)} files were not copied: {", ".join(failed[:5])}')


def multi_download(client, hdfs_path, local_path, trainer_id, trainers, multi_processes=5):
    """Local paths of the files that are this trainer's: every trainers-th one, from the trainer_id-th on."""
    if not 0 <= trainer_id < trainers:
        raise ValueError(f'trainer_id is {trainer_id} of {trainers} trainers: it counts from 0')
    mine = client.lsr(hdfs_path, sort=False)[trainer_id::trainers]
    targets = [os.path.join(local_path, os.path.relpath(path, hdfs_path)) for path in mine]
    for target in targets:
        client.make_local_dirs(os.path.dirname(target))
    _at_a_time(multi_processes, client.download, list(zip(mine, targets)))
    return targets


def multi_upload(client, hdfs_path, local_path, multi_processes=5, overwrite=False, sync=True):
    """Copies all files of a folder, and of those below it, into hdfs_path; it returns when they are there."""
    if not sync:
        raise NotImplementedError('multi_upload with sync=False is not built in Trireme: it would return before the files '
                                  'are there; leave it True, or call it in a thread of your own')
    jobs = []
    for folder, _, files in os.walk(local_path):
        below = os.path.relpath(folder, local_path)
        target = hdfs_path if below == '.' else hdfs_path.rstrip('/') + '/' + below
        jobs += [(target, os.path.join(folder, name)) for name in files]
    _at_a_time(multi_processes, lambda target, path: client.upload(target, path, overwrite=overwrite), jobs)
