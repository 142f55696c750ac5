"""Starts small jobs of ranks by the launcher, and reads what they wrote."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

WORKER = str(pathlib.Path(__file__).with_name('rank_worker.py'))
LIMIT = 60  # seconds for a whole job


class Job:
    def __init__(self, code, err, logs):
        self.code, self.err, self.logs = code, err, logs

    @property
    def said(self):
        assert self.code == 0, self.err
        return [json.loads(log.splitlines()[-1]) for log in self.logs]


def launch(module, arguments, script, env=None, limit=LIMIT):
    """As it ended: (exit code, stderr)."""
    settings = {**os.environ, 'OMP_NUM_THREADS': '1', 'FLAGS_rpc_deadline': '30000', 'CPU_NUM': '1', **(env or {})}
    ended = subprocess.run([sys.executable, '-m', f'paddle.distributed.{module}', '--print_config', 'False']
                           + [str(each) for each in arguments + script], env=settings, text=True,
                           capture_output=True, timeout=limit)
    return ended.returncode, ended.stderr


def job(ranks, mode, steps=6, env=None):
    with tempfile.TemporaryDirectory() as logs:
        code, err = launch('launch', ['--nproc_per_node', ranks, '--log_dir', logs], [WORKER, mode, steps], env)
        texts = [(pathlib.Path(logs) / f'workerlog.{rank}').read_text() for rank in range(ranks)]
    return Job(code, err, texts)
