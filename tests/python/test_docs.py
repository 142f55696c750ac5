"""Runs the samples of docs/: those of one page go on from each other, and print what it says."""
import contextlib
import glob
import io
import os
import re

import pytest


ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PAGES = sorted(glob.glob(os.path.join(ROOT, 'docs', '*.md')))
SAMPLE = re.compile(r'```python\n(.*?)```\n(?:\n```text\n(.*?)```)?', re.S)


@pytest.mark.filterwarnings('ignore')
@pytest.mark.parametrize('page', PAGES, ids=os.path.basename)
def test_samples_print_what_the_page_says(page):
    text = open(page).read()
    names = {}
    for sample in SAMPLE.finditer(text):
        said = io.StringIO()
        line = text.count('\n', 0, sample.start()) + 2
        with contextlib.redirect_stdout(said):
            exec(compile('\n' * (line - 1) + sample.group(1), page, 'exec'), names)
        if sample.group(2) is not None:
            assert said.getvalue() == sample.group(2), f'{page}:{line}'
