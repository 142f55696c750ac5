"""Transpiled programs of many nets, optimizers and schedules: every op of every side is the original's, or
differs for a reason of tests/original/departures.py."""
import gzip
import os
import sys
import warnings

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, '..', 'original'))
import departures  # noqa: E402
import transpiled  # noqa: E402

RECORD = os.path.join(HERE, '..', 'original', 'records', 'transpiled.txt.gz')
CASES = {case[0]: case for case in transpiled.cases()}


def records():
    with gzip.open(RECORD, 'rt') as file:
        texts = [text.strip('\n') for text in file.read().split('\n\n') if text.strip()]
    return {text.partition('\n')[0]: text for text in texts}


RECORDS = records()


def test_every_case_has_a_record():
    assert sorted(RECORDS) == sorted(CASES)


@pytest.mark.parametrize('name', sorted(CASES))
def test_is_as_recorded(name):
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        ours = transpiled.text(*CASES[name]).strip('\n')
    assert departures.without_transpiler_departures(name, ours) == \
        departures.without_transpiler_departures(name, RECORDS[name])
