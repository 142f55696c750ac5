"""Parameters of layers, learning rates, samplers and metrics of 2.x: as recorded from 2.6.2."""
import json
import os
import sys

import numpy as np
import pytest

import paddle

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, '..', 'original'))
import facts26  # noqa: E402

with open(facts26.PATH) as _file:
    FACTS = {(kind, text): fact for kind, text, fact in map(json.loads, _file)}


def same(ours, theirs):
    """Equal, numbers to float32's last digits."""
    if isinstance(theirs, dict):
        return isinstance(ours, dict) and ours.keys() == theirs.keys() and all(same(ours[k], theirs[k]) for k in theirs)
    if isinstance(theirs, list):
        return len(ours) == len(theirs) and all(map(same, ours, theirs))
    if isinstance(theirs, float):
        return np.isclose(ours, theirs, rtol=1e-6, atol=1e-9)
    return ours == theirs


@pytest.mark.parametrize('kind, text', sorted(FACTS))
def test_is_as_recorded(kind, text):
    ours, theirs = facts26.KINDS[kind][0](text), FACTS[kind, text]
    assert same(ours, theirs), f'{ours}\nwas\n{theirs}'


def test_every_fact_is_recorded():
    assert set(FACTS) == {(kind, text) for kind, (_, texts) in facts26.KINDS.items() for text in texts}


def test_initial_values_are_drawn_as_said():
    """The startup program fills what the facts say: a uniform and a normal parameter, by their moments."""
    linear, conv = paddle.nn.Linear(300, 500), paddle.nn.Conv2D(32, 64, 5)
    exe = paddle.static.Executor()
    exe.run(paddle.static.default_startup_program())
    uniform, normal = (np.array(layer.weight.get_value()) for layer in (linear, conv))
    bound, spread = np.sqrt(6 / 800), np.sqrt(2 / (32 * 25))
    assert np.abs(uniform).max() <= bound and np.abs(uniform).max() > 0.99 * bound
    assert uniform.std() == pytest.approx(bound / np.sqrt(3), rel=0.01)
    assert normal.std() == pytest.approx(spread, rel=0.02) and abs(normal.mean()) < 0.02 * spread
