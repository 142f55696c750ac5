"""The same as test_faults.py, two hundred times."""
import os
import re
import subprocess
import sys

from test_faults import JOBS


def test_two_hundred_jobs_survive_nobody_silently():
    ended = subprocess.run([sys.executable, str(JOBS), '200'], capture_output=True, text=True, timeout=3000,
                           env={**os.environ, 'OMP_NUM_THREADS': '1', 'CPU_NUM': '1'})
    assert ended.returncode == 0, ended.stderr[-6000:]
    print(ended.stdout)
    assert re.search(r'^200 jobs: .*failed, and named it', ended.stdout, re.M)
