"""Every recorded case of PaddlePaddle 1.8.5 and 2.6.2, replayed: outputs, gradients, losses as it computed them.

tests/original/README.md says how records are made. What differs is on docs/departures.md, or is a defect.
"""
import collections
import json
import os
import sys
import warnings

import numpy as np
import pytest

import paddle.fluid as fluid

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, '..', 'original'))
import curve  # noqa: E402
import departures  # noqa: E402
import finite  # noqa: E402
import groups  # noqa: E402
import missing  # noqa: E402
import replay  # noqa: E402
import store  # noqa: E402
from case import CASES, run_case  # noqa: E402
from compare import TRAINED, excess  # noqa: E402

PAGE = os.path.join(HERE, '..', '..', 'docs', 'departures.md')
groups.load_all(groups.NAMES + groups.LATER)
RECORDS = {name: record for group in groups.NAMES + groups.LATER for name, record in store.load(groups.path(group)).items()}
counts = collections.Counter()  # printed at the end of the run by conftest.py


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        yield


def not_built(name):
    return departures.NOT_BUILT & set(RECORDS[name][1]['layers'])


@pytest.mark.parametrize('name', sorted(RECORDS))
def test_is_as_recorded(name):
    missing = not_built(name)
    if missing:
        counts['not built here'] += 1
        assert all(not hasattr(fluid.layers, layer) for layer in missing), \
            f'{missing} is there now: take it out of NOT_BUILT'
        return
    lines = []
    try:
        lines = replay.replay(name, RECORDS[name])
    except Exception as error:
        if name not in departures.KNOWN_DEFECTS:
            counts['different'] += 1
            raise
        lines = [str(error)]
    kind = replay.kind_of(name, lines)
    counts[kind] += 1
    listed = name in departures.DEPARTURES or name in departures.KNOWN_DEFECTS
    assert kind != 'different', '\n'.join(lines)
    assert lines or not listed, f'{name} is as the original has it now: take it out of departures.py'
    if name in departures.DECLARED:
        assert all('is declared' in line for line in lines), '\n'.join(lines)
    elif name in departures.GRADIENTS or name in departures.SAME_RULE:
        assert all(line.startswith('gradient/') for line in lines), '\n'.join(lines)


def test_every_case_has_a_record():
    assert sorted(RECORDS) == sorted(CASES)


def test_departures_are_on_the_page():
    with open(PAGE) as page:
        headings = {line.lstrip('#').strip() for line in page if line.startswith('#')}
    assert set(departures.DEPARTURES.values()) <= headings
    assert set(departures.DEPARTURES) | set(departures.KNOWN_DEFECTS) | set(departures.ALLOWANCES) <= set(RECORDS)


@pytest.mark.parametrize('name', sorted(departures.GRADIENTS))
def test_finite_differences_side_with_ours(name):
    arrays, _ = RECORDS[name]
    keys = [key[len('gradient/'):] for key in arrays if key.startswith('gradient/')]
    numeric = finite.numeric_gradients(name, RECORDS[name], keys)
    ours, _ = replay.run_recorded(name, RECORDS[name])
    distances = {key: (finite.distance(ours['gradient/' + key], numeric[key]),
                       finite.distance(arrays['gradient/' + key][0], numeric[key])) for key in keys}
    assert max(near for near, _ in distances.values()) < 5e-3, distances
    assert max(far for _, far in distances.values()) > 0.05, distances


@pytest.mark.parametrize('name', sorted(departures.DECLARED))
def test_declarations_are_what_the_run_gives(name):
    arrays, _ = RECORDS[name]
    _, about = replay.run_recorded(name, RECORDS[name])
    for i, (shape, dtype) in enumerate(about['outs']):
        given = arrays[f'out/{i}'][0]
        assert dtype == given.dtype
        assert len(shape) == given.ndim
        assert all(dim in (-1, size) for dim, size in zip(shape, given.shape)), (shape, given.shape)


def test_the_original_ignores_arguments():
    def recorded(name, key='out/0'):
        return RECORDS[name][0][key][0]
    x = recorded('swish_beta_1.7', 'feed/in0')
    assert excess(x / (1 + np.exp(-x)), recorded('swish_beta_1.7')) < 1  # beta was 1.7
    tanh, relu, identity = (recorded('gru_unit_activations', f'out/{i}') for i in range(3))
    assert np.array_equal(tanh, relu) and np.array_equal(tanh, identity)
    assert np.array_equal(recorded('ftrl_l2', 'loss/0'), recorded('ftrl_equal_l1_l2', 'loss/0'))  # l2 was doubled
    roc, precision = recorded('auc_both_curves'), recorded('auc_both_curves', 'out/1')
    assert roc == precision  # one curve, whatever was asked for


@pytest.mark.parametrize('optimizer', ['momentum', 'rmsprop', 'adam'])
def test_a_sparse_step_is_the_dense_step(optimizer):
    dense, sparse = (RECORDS[f'{optimizer}_{kind}'][0]['loss/0'][0] for kind in ('dense', 'sparse'))
    ours, _ = replay.run_recorded(f'{optimizer}_sparse', RECORDS[f'{optimizer}_sparse'])
    assert excess(sparse, dense) > 20  # the original contradicts itself
    assert excess(ours['loss/0'], dense) < TRAINED


def test_noise_is_drawn_for_every_element():
    arrays, _ = RECORDS['dpsgd_noise']
    theirs = arrays['final/w'][0] - arrays['parameter/w'][0]
    ours = replay.run_recorded('dpsgd_noise', RECORDS['dpsgd_noise'])[0]['final/w'] - arrays['parameter/w'][0]
    assert np.ptp(theirs) < 1e-6  # gradients are equal, and so is the noise
    assert np.ptp(ours) > 1e-3


def test_slices_backwards_are_numpys():
    ours, _ = replay.run_recorded('strided_slice_backwards', RECORDS['strided_slice_backwards'])
    arrays, _ = RECORDS['strided_slice_backwards']
    wanted = arrays['feed/in0'][0][:, -1:-7:-2]
    assert np.array_equal(ours['out/0'][0], wanted)
    assert not np.array_equal(arrays['out/0'][0], wanted)


def test_deformable_convolutions_do_not_depend_on_steps():
    arrays, _ = RECORDS['deformable_conv_steps']
    ours, _ = replay.run_recorded('deformable_conv_steps', RECORDS['deformable_conv_steps'])
    by_one, by_two, by_many = (arrays[f'out/{i}'][0] for i in range(3))
    assert excess(by_two, by_one) > 1000 and excess(by_many, by_one) > 1000
    assert all(excess(ours[f'out/{i}'][0], by_one) < 1 for i in range(3))


def test_the_original_draws_below_low():
    arrays, _ = RECORDS['distributions_drawn']
    ours, _ = replay.run_recorded('distributions_drawn', RECORDS['distributions_drawn'])
    assert arrays['out/2'][0].min() < 0 <= ours['out/2'][0].min()  # from 0 to 2
    assert ours['out/2'][0].max() <= 2


def test_the_original_compares_one_value():
    arrays, _ = RECORDS['uniform_of_numbers']
    ours, _ = replay.run_recorded('uniform_of_numbers', RECORDS['uniform_of_numbers'])
    values, theirs = arrays['feed/in0'][0], arrays['out/1'][0]  # from 0 to 2
    inside = (0 < values) & (values < 2)
    assert np.array_equal(np.isfinite(ours['out/1'][0]), inside)
    assert np.array_equal(np.isfinite(theirs), values < 2) and not inside.all() and (values < 0).any()


def test_pos_weight_weighs_all_of_label_one():
    arrays, _ = RECORDS['f_bce_pos_weight']
    ours, _ = replay.run_recorded('f_bce_pos_weight', RECORDS['f_bce_pos_weight'])
    logit, label, weight = (arrays[f'feed/in{i}'][0].astype('float64') for i in range(3))
    wanted = weight * label * np.logaddexp(0, -logit) + (1 - label) * np.logaddexp(0, logit)
    assert excess(ours['out/1'][0], wanted) < 1
    positive = logit > 0
    assert excess(arrays['out/1'][0][positive], wanted[positive]) < 1
    assert excess(arrays['out/1'][0], wanted) > 100


def test_lengths_of_beams_are_those_of_their_words():
    ours, _ = replay.run_recorded('dynamic_decode_with_length', RECORDS['dynamic_decode_with_length'])
    words, end = ours['out/0'][0], 0  # [time, batch, beam]
    ended = (words == end).any(axis=0)
    lengths = np.where(ended, (words == end).argmax(axis=0) + 1, words.shape[0])
    assert np.array_equal(ours['out/1'][0], lengths)
    assert not np.array_equal(RECORDS['dynamic_decode_with_length'][0]['out/1'][0], lengths)


@pytest.mark.parametrize('name', sorted(name for name in CASES if CASES[name][0] == 'seeded'))
def test_seeded_numbers_are_the_originals_to_the_bit(name):
    arrays, _ = RECORDS[name]
    ours, _ = replay.run_recorded(name, RECORDS[name])
    for key in (key for key in arrays if key.startswith('out/')):
        drawn = ours[key][0]
        if 'dropout' in name:  # what is dropped; the kept numbers are scaled in another order
            assert np.array_equal(drawn == 0, arrays[key][0] == 0), key
        else:
            assert np.array_equal(drawn.view(np.uint8), arrays[key][0].view(np.uint8)), key


def test_without_the_flag_seeded_numbers_are_trireme_s_own():
    arrays, _ = RECORDS['seeded_uniform']
    ours, _ = run_case('seeded_uniform')
    assert not np.array_equal(ours['out/0'][0], arrays['out/0'][0])


def test_a_seeded_program_repeats_its_old_curve():
    with open(os.path.join(HERE, '..', 'original', 'records', 'curve.json')) as file:
        recorded = json.load(file)
    with replay.original_numbers():
        ours = curve.run()
    for name, values in recorded['parameters'].items():
        assert ours['parameters'][name] == values, name
    np.testing.assert_allclose(ours['losses'], recorded['losses'], rtol=2e-6)
    assert ours['losses'] != curve.run()['losses']


def test_every_layer_of_both_has_a_case():
    assert missing.uncovered() == []
