"""Runs the examples as a user would: each ends with 0 only when it reaches its stated goal."""
import os
import subprocess
import sys

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

PROGRAMS = [
    ['fit_a_line.py'],
    ['recognize_digits.py', 'mlp'],
    ['recognize_digits.py', 'conv'],
    ['word2vec.py', 'sparse'],
    ['word2vec.py', 'dense'],
    ['understand_sentiment.py', 'conv'],
    ['understand_sentiment.py', 'stacked_lstm'],
    ['understand_sentiment.py', 'dynamic_rnn'],
    ['image_classification.py', 'vgg'],
    ['image_classification.py', 'resnet'],
    ['recommender_system.py'],
    ['label_semantic_roles.py'],
    ['machine_translation.py', 'sparse'],
    ['machine_translation.py', 'dense'],
    ['rnn_encoder_decoder.py'],
]


def test_demo_says_what_each_device_did():
    run = subprocess.run([sys.executable, os.path.join(ROOT, 'examples', 'demo.py')],
                         capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stdout + run.stderr
    for device in (0, 1):
        assert f'device {device}: 14080 samples, mean loss' in run.stdout
    assert 'Accuracy on 360 digits it has not seen' in run.stdout


@pytest.mark.parametrize('command', PROGRAMS, ids=' '.join)
def test_example_reaches_its_goal(command):
    script = os.path.join(ROOT, 'examples', 'fluid', command[0])
    run = subprocess.run([sys.executable, script] + command[1:], capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stdout + run.stderr
    assert 'the loaded model predicts the same' in run.stdout
