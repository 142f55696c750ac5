"""Loss curves and timelines as PNG or SVG, by the ending of the path; matplotlib draws them."""
import json
import os

from .pages import events_of


def _figure(path, width, height):
    if os.path.splitext(path)[1].lower() not in ('.png', '.svg'):
        raise ValueError(f'a picture is a .png or an .svg file, got {path!r}')
    try:
        import matplotlib
    except ImportError as error:
        raise ImportError('pictures are drawn by matplotlib, which is not here (Debian: python3-matplotlib)') from error
    matplotlib.use('Agg')
    from matplotlib import pyplot
    return pyplot.subplots(figsize=(width, height))


def _save(figure, path):
    from matplotlib import pyplot
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def draw_loss(losses, path, title=''):
    """Draws a list of losses, or several by name, over the steps."""
    curves = losses if isinstance(losses, dict) else {'': losses}
    figure, axes = _figure(path, 7, 4)
    for name, values in curves.items():
        axes.plot(range(1, len(values) + 1), values, linewidth=1, label=name or None)
    if all(value > 0 for values in curves.values() for value in values):
        axes.set_yscale('log')
    axes.set_xlabel('step')
    axes.set_ylabel('loss')
    axes.set_title(title)
    axes.grid(True, which='both', alpha=0.3)
    if len(curves) > 1:
        axes.legend()
    _save(figure, path)


def draw_timeline(reports, path, title=''):
    """Draws the timed steps of a report (JSON text), or of several processes, one lane for each thread."""
    reports = [reports] if isinstance(reports, str) else reports
    lanes = {}
    for process, events in map(lambda text: events_of(json.loads(text)), reports):
        for lane, name, start, duration in events:
            if name != 'step':
                lanes.setdefault(f'{process}, {lane}' if len(reports) > 1 else lane, []).append((start, duration, name))
    if not lanes:
        raise ValueError('the report has no timed steps to draw')
    zero = min(start for events in lanes.values() for start, _, _ in events)
    figure, axes = _figure(path, 10, 1.2 + 0.5 * len(lanes))
    names = sorted({name for events in lanes.values() for *_, name in events})
    from matplotlib import colormaps
    colours = {name: colormaps['tab20'](i % 20) for i, name in enumerate(names)}
    for row, (lane, events) in enumerate(sorted(lanes.items())):
        axes.broken_barh([((start - zero) / 1e3, duration / 1e3) for start, duration, _ in events], (row - 0.4, 0.8),
                         facecolors=[colours[name] for *_, name in events])
    axes.set_yticks(range(len(lanes)))
    axes.set_yticklabels(sorted(lanes))
    axes.set_xlabel('ms')
    axes.set_title(title)
    _save(figure, path)
