"""Two servers and two trainers give the losses that the original's own servers and trainers give."""
import json
import os
import pathlib
import sys

import numpy as np
import pytest

ORIGINAL = pathlib.Path(__file__).parents[1] / 'original'
sys.path.insert(0, str(ORIGINAL))

import record_servers  # noqa: E402

RECORDED = json.loads((ORIGINAL / 'records' / 'servers.json').read_text())


@pytest.mark.parametrize('net', record_servers.NETS)
def test_losses_are_the_originals(net):
    losses = record_servers.run([sys.executable], net, {**os.environ, 'OMP_NUM_THREADS': '1'})
    np.testing.assert_allclose(losses, RECORDED[net], rtol=1e-5, atol=1e-5)
