"""Ploter: costs over steps as curves, in a notebook or in a file. DISABLE_PLOT=True turns it off."""
import os

__all__ = ['Ploter']


class PlotData:
    """One curve."""

    def __init__(self):
        self.reset()

    def append(self, step, value):
        self.step.append(step)
        self.value.append(value)

    def reset(self):
        self.step = []
        self.value = []


class Ploter:
    """Ploter('train cost', 'test cost'); append(title, step, value); plot() or plot('costs.png')"""

    def __init__(self, *args):
        self._curves = {title: PlotData() for title in args}
        self._off = os.environ.get('DISABLE_PLOT') == 'True'
        if self._off:
            return
        try:
            import matplotlib.pyplot
        except ImportError as error:
            raise ImportError('Ploter draws with matplotlib, which is not there: install '
                              'python3-matplotlib, or set DISABLE_PLOT=True') from error
        self.plt = matplotlib.pyplot

    def append(self, title, step, value):
        assert title in self._curves, f'there is no curve {title!r}, only {list(self._curves)}'
        self._curves[title].append(step, value)

    def plot(self, path=None):
        """Draws the curves: into a file, or where the notebook shows its output."""
        if self._off:
            return
        shown = {title: curve for title, curve in self._curves.items() if curve.step}
        for curve in shown.values():
            self.plt.plot(curve.step, curve.value)
        self.plt.legend(list(shown), loc='upper left')
        if path is not None:
            self.plt.savefig(path)
        else:
            try:
                from IPython import display
            except ImportError:
                self.plt.show()
            else:
                display.clear_output(wait=True)
                display.display(self.plt.gcf())
        self.plt.gcf().clear()

    def reset(self):
        for curve in self._curves.values():
            curve.reset()
