"""Runs the samples of docs/: those of one page go on from each other, and print what it says. C++ is from the examples."""
import contextlib
import glob
import io
import os
import re

import pytest

import paddle

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PAGES = sorted(glob.glob(os.path.join(ROOT, 'docs', '*.md')))
SAMPLE = re.compile(r'```python\n(.*?)```\n(?:\n```text\n(.*?)```)?', re.S)


@pytest.fixture(autouse=True)
def unseeded():
    """paddle.seed in a sample would count for the programs of later tests, too."""
    yield
    paddle.seed(0)


@pytest.mark.filterwarnings('ignore')
@pytest.mark.parametrize('page', PAGES, ids=os.path.basename)
def test_samples_print_what_the_page_says(page, tmp_path, monkeypatch, environment):
    monkeypatch.chdir(tmp_path)  # they may write files
    text = open(page).read()
    names = {}
    for sample in SAMPLE.finditer(text):
        said = io.StringIO()
        line = text.count('\n', 0, sample.start()) + 2
        with contextlib.redirect_stdout(said):
            exec(compile('\n' * (line - 1) + sample.group(1), page, 'exec'), names)
        if sample.group(2) is not None:
            assert said.getvalue() == sample.group(2), f'{page}:{line}'


@pytest.mark.parametrize('page', PAGES, ids=os.path.basename)
def test_cpp_is_part_of_an_example(page):
    examples = [open(path).read() for path in glob.glob(os.path.join(ROOT, 'examples', 'cpp', '*.cc'))]
    for sample in re.findall(r'```cpp\n(.*?)```', open(page).read(), re.S):
        assert any(sample in text for text in examples), sample


@pytest.mark.parametrize('page', PAGES, ids=os.path.basename)
def test_the_index_names_the_page_and_links_lead_somewhere(page):
    name = os.path.basename(page)
    assert name == 'README.md' or f'({name})' in open(os.path.join(ROOT, 'docs', 'README.md')).read()
    for link in re.findall(r'\]\(([^)#:]+)\)', open(page).read()):
        assert os.path.exists(os.path.join(ROOT, 'docs', link)), link
