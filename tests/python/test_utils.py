"""paddle.utils.plot: what programs of the book draw with."""
import pytest

from paddle.utils.plot import Ploter


def test_plots_may_be_turned_off(monkeypatch, tmp_path):
    monkeypatch.setenv('DISABLE_PLOT', 'True')
    plot = Ploter('train cost', 'test cost')
    plot.append('train cost', 0, 1.5)
    plot.plot(str(tmp_path / 'costs.png'))
    assert not list(tmp_path.iterdir())
    with pytest.raises(AssertionError, match="no curve 'cost'"):
        plot.append('cost', 0, 1.5)


def test_curves_go_into_a_file(monkeypatch, tmp_path):
    matplotlib = pytest.importorskip('matplotlib')
    matplotlib.use('Agg')
    monkeypatch.delenv('DISABLE_PLOT', raising=False)
    plot = Ploter('cost')
    plot.append('cost', 0, 1.5)
    plot.append('cost', 1, 0.5)
    plot.plot(str(tmp_path / 'costs.png'))
    assert (tmp_path / 'costs.png').stat().st_size > 0
    plot.reset()
