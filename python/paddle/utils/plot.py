"""Ploter: costs over steps as curves, in a notebook or in a file. DISABLE_PLOT=True turns it off."""
import os

__all__ = ['Ploter']


class PlotData:
    """One curve: its points, in the order they came."""

    def __init__(self):
        self._points = []

    step = property(lambda self: [step for step, _ in self._points])
    value = property(lambda self: [value for _, value in self._points])

    def append(self, step, value):
        self._points.append((step, value))

    def reset(self):
        self._points.clear()


def _pyplot():
    try:
        import matplotlib.pyplot
    except ImportError as error:
        raise ImportError('Ploter draws with matplotlib, which is not there: install '
                          'python3-matplotlib, or set DISABLE_PLOT=True') from error
    return matplotlib.pyplot


class Ploter:
    """Ploter('train cost', 'test cost'); append(title, step, value); plot() or plot('costs.png')"""

    def __init__(self, *args):
        self._curves = {title: PlotData() for title in args}
        self._off = os.environ.get('DISABLE_PLOT') == 'True'
        if not self._off:
            self.plt = _pyplot()

    def append(self, title, step, value):
        assert title in self._curves, f'there is no curve {title!r}, only {list(self._curves)}'
        self._curves[title].append(step, value)

    def plot(self, path=None):
        """Draws the curves: into a file, or where the notebook shows its output."""
        if self._off:
            return
        drawn = [(title, curve) for title, curve in self._curves.items() if curve.step]
        for _, curve in drawn:
            self.plt.plot(curve.step, curve.value)
        self.plt.legend([title for title, _ in drawn], loc='upper left')
        self.plt.savefig(path) if path is not None else self._show()
        self.plt.gcf().clear()

    def _show(self):
        try:
            from IPython import display
        except ImportError:
            self.plt.show()
            return
        display.clear_output(wait=True)
        display.display(self.plt.gcf())

    def reset(self):
        """All curves begin anew."""
        for curve in self._curves.values():
            curve.reset()
