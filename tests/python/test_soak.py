"""A job with parameter servers does not grow. The full one: soak_jobs.py 100000."""
import pathlib
import subprocess
import sys

SOAK = str(pathlib.Path(__file__).with_name('soak_jobs.py'))


def test_processes_do_not_grow_over_a_thousand_steps():
    ended = subprocess.run([sys.executable, SOAK, '1000'], capture_output=True, text=True, timeout=300)
    print(ended.stdout)
    assert ended.returncode == 0 and 'grown: none' in ended.stdout, ended.stdout + ended.stderr[-3000:]
