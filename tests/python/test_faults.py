"""Processes of a job that are ended at random moments: the others end, and say which it was."""
import os
import pathlib
import re
import subprocess
import sys

JOBS = pathlib.Path(__file__).with_name('fault_jobs.py')


def test_jobs_survive_nobody_silently():
    seed = os.environ.get('TRIREME_TEST_SEED', '1')
    ended = subprocess.run([sys.executable, str(JOBS), '20', seed], capture_output=True, text=True, timeout=600,
                           env={**os.environ, 'OMP_NUM_THREADS': '1', 'CPU_NUM': '1'})
    assert ended.returncode == 0, ended.stderr[-6000:]
    print(ended.stdout)
    assert re.search(r'^20 jobs: .*failed by SIGKILL of a trainer, and named it', ended.stdout, re.M)
    assert re.search(r'recovered from the death of a server', ended.stdout)
