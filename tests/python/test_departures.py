"""docs/departures.md: every entry names a test that there is, or is held case by case by the records."""
import glob
import os
import re
import sys

import pytest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..')
sys.path.insert(0, os.path.join(ROOT, 'tests', 'original'))
import departures  # noqa: E402
import transpiled_compare  # noqa: E402


def entries():
    """heading -> text of what stands below it."""
    with open(os.path.join(ROOT, 'docs', 'departures.md')) as page:
        parts = re.split(r'^### (.*)$', page.read(), flags=re.M)
    return {heading: re.split(r'^## ', text, flags=re.M)[0] for heading, text in zip(parts[1::2], parts[2::2])}


def names_of_tests():
    found = set()
    for path in glob.glob(os.path.join(ROOT, 'tests', '**', '*.*'), recursive=True):
        if path.endswith('.py') or path.endswith('_test.cc'):
            with open(path) as file:
                text = file.read()
            found.add(os.path.relpath(path, ROOT))
            found.update(re.findall(r'^def (test_\w+)', text, flags=re.M))
            found.update('.'.join(pair) for pair in re.findall(r'^TEST\((\w+), (\w+)\)', text, flags=re.M))
    return found


ENTRIES, THERE = entries(), names_of_tests()


@pytest.mark.parametrize('heading', sorted(ENTRIES))
def test_an_entry_is_held_by_a_test(heading):
    text = ENTRIES[heading]
    named = re.findall(r'`(?:(tests/[\w/]+\.(?:py|cc))(?:::(\w+))?|(test_\w+)|([A-Z]\w+\.[A-Z]\w+))`', text)
    names = [name for group in named for name in group if name]
    assert all(name in THERE or name.startswith('tests/original/') for name in names), names
    by_records = set(departures.DEPARTURES.values()) | transpiled_compare.HEADINGS
    assert heading in by_records or names, 'name the test that holds it'
    assert len(text.split()) > 20, 'say what differs and why'
