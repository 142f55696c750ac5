"""Files that PaddlePaddle 1.8.5 wrote: inference models of every recorded case, persistables, .pdparams.

They are in tests/original/records; outputs are compared with those of the original.
"""
import os
import sys
import warnings

import numpy as np
import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, '..', 'original'))
import departures  # noqa: E402
import files  # noqa: E402
import groups  # noqa: E402
import store  # noqa: E402
from compare import excess  # noqa: E402

groups.load_all()
RECORDS = {name: record for group in groups.NAMES for name, record in store.load(groups.path(group)).items()}
FILES = {name: record for group in groups.NAMES if os.path.exists(groups.files_path(group))
         for name, record in store.load(groups.files_path(group)).items()}
MODELS = sorted(name for name in FILES if name not in files.RESUMED
                and not departures.NOT_BUILT & set(RECORDS[name][1]['layers']))

# A departure of the run itself. Of the others the file does not hold the argument, or they are in gradients.
OTHER_NUMBERS = {'auc_both_curves', 'strided_slice_backwards', 'deformable_conv_steps', 'uniform_of_numbers'}


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        yield


def model_differences(name, folder):
    lines = []
    for i, (value, lod) in enumerate(files.run_model(name, RECORDS[name], folder)):
        wanted, wanted_lod = FILES[name][0][f'out/{i}']
        if value.dtype != wanted.dtype or value.shape != wanted.shape or lod != wanted_lod:
            lines.append(f'result {i} is {value.dtype} {value.shape} {lod}, was {wanted.dtype} {wanted.shape} '
                         f'{wanted_lod}')
        elif excess(value, wanted) > 1 if value.dtype.kind == 'f' else (value != wanted).any():
            lines.append(f'result {i} is\n{value}\nand was\n{wanted}')
    return lines


@pytest.mark.parametrize('name', MODELS)
def test_runs_a_model_of_the_original(name, tmp_path):
    files.unpack(FILES[name][0], str(tmp_path))
    lines = model_differences(name, str(tmp_path))
    assert bool(lines) == (name in OTHER_NUMBERS), lines


@pytest.mark.parametrize('name', sorted(files.RESUMED))
def test_training_goes_on_from_files_of_the_original(name, tmp_path):
    files.unpack(FILES[name][0], str(tmp_path))
    found, wanted = files.resume(name, str(tmp_path)), FILES[name][0]['losses'][0]
    np.testing.assert_allclose(found, wanted, rtol=2e-5)
