"""Runs the samples of the README."""
import os
import re
import subprocess
import sys

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
README = open(os.path.join(ROOT, 'README.md')).read()


def samples(language):
    return re.findall(r'```%s\n(.*?)```' % language, README, re.S)


@pytest.mark.parametrize('sample', samples('python'))
def test_python_sample_runs(sample):
    run = subprocess.run([sys.executable, '-c', sample], capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip()


@pytest.mark.parametrize('sample', samples('cpp'))
def test_cpp_sample_is_part_of_the_example(sample):
    assert sample in open(os.path.join(ROOT, 'examples', 'cpp', 'toy.cc')).read()
