"""Transpiled programs of many nets, optimizers and schedules: every op of every side is the original's, or
differs for a reason on docs/departures.md (tests/original/transpiled_compare.py)."""
import collections
import gzip
import os
import sys
import warnings

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, '..', 'original'))
import transpiled  # noqa: E402
from transpiled_compare import HEADINGS, REFUSED, comparable, net_of, sides  # noqa: E402

RECORD = os.path.join(HERE, '..', 'original', 'records', 'transpiled.txt.gz')
PAGE = os.path.join(HERE, '..', '..', 'docs', 'departures.md')
CASES = {case[0]: case for case in transpiled.cases()}
counts = collections.Counter()  # printed at the end of the run by conftest.py


def records():
    with gzip.open(RECORD, 'rt') as file:
        texts = [text.strip('\n') for text in file.read().split('\n\n') if text.strip()]
    return {text.partition('\n')[0]: text for text in texts}


RECORDS = records()


def ours(name):
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        return transpiled.text(*CASES[name]).strip('\n')


def test_every_case_has_a_record():
    assert sorted(RECORDS) == sorted(CASES)


def test_departures_are_on_the_page():
    with open(PAGE) as page:
        assert HEADINGS <= {line.lstrip('#').strip() for line in page if line.startswith('#')}


@pytest.mark.parametrize('name', sorted(CASES))
def test_is_as_recorded(name):
    text, recorded = ours(name), RECORDS[name]
    if net_of(name) in REFUSED:
        assert recorded.split('\n')[1].startswith('  refused: ')
        assert len(sides(text)) == 2 + 2 * CASES[name][2]
        counts['on the page of departures'] += 1
        return
    same = text == recorded
    counts['equal' if same else 'on the page of departures'] += 1
    if not same:
        counts['different'] += comparable(name, text) != comparable(name, recorded)
        assert comparable(name, text) == comparable(name, recorded)


@pytest.mark.parametrize('servers', [1, 2])
def test_adadelta_is_updated_on_servers(servers):
    """The original's servers keep parameters that nothing updates."""
    name = f'adadelta, {servers} servers, cut, sync'
    updates = [line.strip() for line in ours(name).split('\n') if line.strip().startswith('adadelta(')]
    assert len(updates) == 1 + servers  # the bias is whole, the weight has a slice on each server
    assert 'adadelta(' not in RECORDS[name]


def test_clips_of_the_whole_gradient_are_on_the_servers():
    """tests/transpiler/clip_test.cc trains with them and gets what one process gets."""
    name = 'clipped, 1 servers, cut, sync'
    for text, server in ((ours(name), True), (RECORDS[name], False)):
        where = sides(text)
        for title, there in (('trainer', not server), ('10.0.0.0:6174', server)):
            assert any('sqrt(' in line for line in where[title]) == there, title


def test_slices_of_rmsprop_have_accumulators_of_their_size():
    name = 'rmsprop, 2 servers, cut, sync'
    assert '(Out: w_mean_grad_0) shape=[200, 100]' in ours(name)
    assert '(Out: w_mean_grad_0) shape=[400, 100]' in RECORDS[name]
    assert '(Out: w_momentum_0) shape=[200, 100]' in RECORDS[name]


def test_a_trainer_runs_no_block_of_a_schedule_that_moved():
    """Blocks that no op names do nothing, so leaving them out changes nothing."""
    trainer = sides(RECORDS['piecewise_decay, 1 servers, cut, sync'])['trainer']
    assert any(line.startswith('    block 1 ') for line in trainer)
    assert not any('conditional_block' in line for line in trainer)
