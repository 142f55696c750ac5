"""Runs the samples in the docstrings of PaddlePaddle 1.8.5 in it and here, and prints the share that runs here.

    .venv/bin/python tools/docstring_samples.py FOLDER COMMAND...

COMMAND runs a script in the original (a Python 2.7 that has it). The samples are what its functions and classes
say of themselves when they are asked for __doc__; they stay in FOLDER, with what came of each, and belong in no
repository. Samples of dynamic mode are left out. Each runs in a process of its own, in an empty folder.
The two steps alone, in either Python:

    python tools/docstring_samples.py --extract SAMPLES.json
    python tools/docstring_samples.py --run SAMPLES.json RESULTS.json
"""
from __future__ import print_function

import importlib
import inspect
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import traceback

MODULES = ['paddle', 'paddle.fluid', 'paddle.fluid.layers', 'paddle.fluid.nets', 'paddle.fluid.optimizer',
           'paddle.fluid.initializer', 'paddle.fluid.regularizer', 'paddle.fluid.clip', 'paddle.fluid.backward',
           'paddle.fluid.io', 'paddle.fluid.metrics', 'paddle.fluid.evaluator', 'paddle.fluid.average',
           'paddle.fluid.profiler', 'paddle.fluid.unique_name', 'paddle.fluid.dataset', 'paddle.fluid.transpiler',
           'paddle.fluid.contrib', 'paddle.fluid.contrib.layers', 'paddle.fluid.executor', 'paddle.fluid.compiler',
           'paddle.fluid.framework', 'paddle.fluid.core', 'paddle.reader']
SECONDS = 120  # that a sample may take


# What the original says.

def code_blocks(text):
    """The Python in a docstring: what is indented below a code-block."""
    found, lines, i = [], textwrap.dedent('    ' + text.expandtabs(4)).splitlines(), 0
    while i < len(lines):
        opened = re.match(r'( *)\.\. code-block:: *python', lines[i])
        i += 1
        if not opened:
            continue
        body = []
        while i < len(lines) and (not lines[i].strip() or
                                  len(lines[i]) - len(lines[i].lstrip()) > len(opened.group(1))):
            body.append(lines[i])
            i += 1
        while body and (not body[0].strip() or re.match(r' *:\w+:', body[0])):
            body.pop(0)
        code = textwrap.dedent('\n'.join(body)).strip()
        if code:
            found.append(code + '\n')
    return found


def documented():
    """(name, docstring) of every public function, class and method, each once."""
    seen = set()
    for module_name in MODULES:
        module = importlib.import_module(module_name)
        names = getattr(module, '__all__', None) or [name for name in dir(module) if not name.startswith('_')]
        for name in sorted(set(names)):
            thing = getattr(module, name, None)
            if thing is None or inspect.ismodule(thing) or id(thing) in seen:
                continue
            seen.add(id(thing))
            yield module_name + '.' + name, thing.__doc__
            for member in sorted(dir(thing)) if inspect.isclass(thing) else []:
                method = getattr(thing, member, None)
                if not member.startswith('_') and getattr(method, '__doc__', None) and callable(method):
                    yield '%s.%s.%s' % (module_name, name, member), method.__doc__


def extract(path):
    samples, seen = [], set()
    for name, text in documented():
        for number, code in enumerate(code_blocks(text) if isinstance(text, type('')) else []):
            if 'dygraph' in code or 'imperative' in code or code in seen:
                continue
            seen.add(code)
            samples.append(('%s#%d' % (name, number), code))
    with open(path, 'w') as file:
        json.dump(samples, file, indent=1)
    print('%d samples' % len(samples))


# Running them.

def run_one(code):
    """'' when it runs to its end, else the last line of its error."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        folder = tempfile.mkdtemp()
        text = 'ended its process'
        try:
            os.chdir(folder)
            signal.alarm(SECONDS)
            nowhere = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(nowhere, stream)
            exec(compile(code, 'sample.py', 'exec'), {'__name__': '__main__'})
            text = ''
        except BaseException:
            kind, error, trace = sys.exc_info()
            lines = [entry[1] for entry in traceback.extract_tb(trace) if entry[0] == 'sample.py']
            lines = lines or [getattr(error, 'lineno', 0)]
            text = 'line %s: %s: %s' % (lines[-1], kind.__name__, str(error)[:400])
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            os.write(writing, text.encode('utf-8', 'replace'))
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, 'rb') as pipe:
        said = pipe.read().decode('utf-8', 'replace')
    status = os.waitpid(child, 0)[1]
    return said if status == 0 else 'the process ended with status %d' % status


def run(samples_path, results_path):
    importlib.import_module('paddle.fluid')  # once, before the samples' processes branch off
    results = {}
    for name, code in json.load(open(samples_path)):
        results[name] = run_one(code)
    with open(results_path, 'w') as file:
        json.dump(results, file, indent=1, sort_keys=True)
    print('%d of %d run' % (sum(not text for text in results.values()), len(results)))


def both(folder, original):
    """Everything, and the comparison."""
    if not os.path.isdir(folder):
        os.makedirs(folder)
    samples, there, here = (os.path.join(folder, name) for name in ('samples.json', 'there.json', 'here.json'))
    script = os.path.abspath(__file__)
    environment = dict(os.environ, CPU_NUM='2')
    if not os.path.exists(there):  # its answers do not change
        for step in (['--extract', samples], ['--run', samples, there]):
            subprocess.check_call(original + [script] + step, env=environment)
    subprocess.check_call([sys.executable, script, '--run', samples, here], env=environment)
    results_there, results_here = json.load(open(there)), json.load(open(here))
    running = [name for name in sorted(results_there) if not results_there[name]]
    failing = [name for name in running if results_here[name]]
    for name in failing:
        print('%s\n    %s' % (name, results_here[name].replace('\n', '\n    ')))
    print('of %d samples %d run in the original, and of those %d run here: %.1f%%' % (
        len(results_there), len(running), len(running) - len(failing),
        100.0 * (len(running) - len(failing)) / max(1, len(running))))


def main(arguments):
    if arguments[:1] == ['--extract'] and len(arguments) == 2:
        extract(arguments[1])
    elif arguments[:1] == ['--run'] and len(arguments) == 3:
        run(*arguments[1:])
    elif len(arguments) >= 2 and not arguments[0].startswith('--'):
        both(os.path.abspath(arguments[0]), arguments[1:])
    else:
        sys.exit(__doc__)


if __name__ == '__main__':
    main(sys.argv[1:])
