"""Reports: the engine's JSON of a program that ran, and of the steps that were timed."""
import json
import os

import _trireme as _C

from ..fluid.compiler import CompiledProgram
from . import machine


def _with(text, name, value):
    """The report with one more field."""
    value = json.dumps(value).replace('<', '\\u003c').replace('&', '\\u0026')
    return f'{text[:-1]},{json.dumps(name)}:{value}}}'


def report(program, executor, events=None, process='', curves=None):
    """The JSON text of a Program or CompiledProgram that `executor` has run; docs/view.md says what it
    holds. events are _C.ProfileEvents of timed steps."""
    events = events if events is not None else _C.ProfileEvents()
    speeds = machine.speeds('cpu' if executor.place.is_cpu_place() else 'gpu') if len(events) else 'null'
    given = getattr(executor, '_engine', executor), process, events, speeds
    if isinstance(program, CompiledProgram):
        text = _C.report_of_compiled(program._engine, *given)
    else:
        text = _C.report_of(program, *given)
    return _with(text, 'curves', curves) if curves else text


def report_of_call(call, process=''):
    if call.report is not None:
        return call.report
    curves = {name: values for name, values in call.curves.items() if 1 < len(values) <= 100000}
    return report(call.program, call.executor, call.events(), process, curves)


def write_view(compiled, path, feed, names, steps):
    """CompiledProgram.view: the page of a program that ran, with steps on copies of its variables."""
    from . import pages
    events = _C.ProfileEvents()
    engine = compiled._ran_by
    if feed is not None:
        scope = _C.copied_scope(compiled._last_scope or _C.global_scope())
        for step in range(steps + 1):  # the first binds, where shapes are new
            if step:
                _C.start_profiling()
            try:
                compiled._engine.run(engine, feed, names, scope, True, True, False, compiled._merge)
            finally:
                if step:
                    events.extend(_C.stop_profiling())
    pages.write_page(path, [report(compiled, engine, events)], title=os.path.basename(path))
