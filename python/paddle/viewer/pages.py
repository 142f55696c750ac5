"""The page: one HTML file with its data, its style and its script inside."""
import json
import os

_HERE = os.path.dirname(os.path.abspath(__file__))
_SCRIPTS = ['base.js', 'graph_model.js', 'graph.js', 'passes.js', 'memory.js', 'timeline.js', 'tables.js', 'main.js']


def _read(name):
    with open(os.path.join(_HERE, name), encoding='utf-8') as file:
        return file.read()


def write_page(path, reports, title='', against=()):
    """Writes reports (JSON texts; several are processes of one job) as a page; `against` are those of an
    earlier run to compare with."""
    if not reports:
        raise ValueError('there is no report to write a page of')
    # The engine's JSON has no `<` and no `&`: nothing in it can end the element it stands in.
    title = json.dumps(title).replace('<', '\\u003c').replace('&', '\\u0026')
    data = f'{{"title":{title},"runs":[{",".join(reports)}],"against":[{",".join(against)}]}}'
    text = _read('page.html').replace('/*style*/', _read('page.css'))
    text = text.replace('/*script*/', '\n'.join(map(_read, _SCRIPTS)))
    before, after = text.split('/*data*/')
    with open(path, 'w', encoding='utf-8') as file:
        file.write(before + data + after)


def events_of(report):
    """(process, [(lane, name, start, duration in microseconds)]) of a report that was read."""
    profile, process = report['profile'], report['process']
    shift = process['wall_ns'] - process['steady_ns'] + profile['zero_ns']
    made = []
    for kind, name, thread, start, duration, replica, runner, _, _ in profile['events']:
        if runner and kind == 0:
            lane = ('host', 'device: compute', 'device: upload', 'device: download')[runner]
        else:
            lane = f'replica {replica}' if kind == 2 else f'thread {thread}'
        name = profile['names'][name]
        made.append((lane, f'{name}: waits for others' if kind == 2 else name, (start + shift) / 1e3, duration / 1e3))
    return process['name'] or f'process {process["pid"]}', made


def write_trace(path, reports):
    """Writes the timed steps of reports in the Trace Event Format, for Perfetto and chrome://tracing."""
    traced = [events_of(json.loads(text)) for text in reports]
    zero = min((start for _, events in traced for _, _, start, _ in events), default=0)
    out = []
    for pid, (process, events) in enumerate(traced):
        out.append({'ph': 'M', 'name': 'process_name', 'pid': pid, 'args': {'name': process}})
        lanes = sorted({lane for lane, *_ in events})
        out += [{'ph': 'M', 'name': 'thread_name', 'pid': pid, 'tid': tid, 'args': {'name': lane}}
                for tid, lane in enumerate(lanes)]
        out += [{'ph': 'X', 'name': name, 'pid': pid, 'tid': lanes.index(lane), 'ts': round(start - zero, 3),
                 'dur': round(duration, 3)} for lane, name, start, duration in events]
    with open(path, 'w') as file:
        json.dump({'displayTimeUnit': 'ms', 'traceEvents': out}, file)
