"""Files that PaddlePaddle 2.6.2 wrote: its inference models give its numbers here, and training goes on
from its states as it went on there."""
import os
import subprocess
import sys

import numpy as np
import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
RECORDS = os.path.join(HERE, '..', 'original')
NAMES = ('arithmetic_adam', 'image_momentum', 'mlp_adam', 'mlp_sgd', 'words_adagrad')


def test_every_net_is_recorded():
    record = np.load(os.path.join(RECORDS, 'records', 'files_2_6.npz'))
    assert sorted({key.partition('/')[0] for key in record.files}) == sorted(NAMES)


@pytest.mark.parametrize('name', NAMES)
def test_files_of_2_6(tmp_path, name):
    """In a process of its own: programs print and name as 2.4's after enable_static."""
    done = subprocess.run([sys.executable, os.path.join(RECORDS, 'check_2_6.py'), name, str(tmp_path)],
                          capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.split() == ['model', 'state', 'training', 'program']
