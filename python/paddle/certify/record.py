#!/usr/bin/env python
"""Records what the original computes: run this in the environment where your script runs now.

    python record.py SCRIPT [--output record.npz] [--steps 1] [--skip 0] [ARGUMENTS OF THE SCRIPT]

For Python 2.7 and 3, with paddle.fluid 1.x or paddle 2.x. It runs the script and looks at the training steps:
the variables before the first of them, what is fed, what is fetched, and the variables after the last. With
--skip N the first N steps are let go. When it has its steps, it writes the file and ends the script. Then,
with Trireme: python -m paddle.certify SCRIPT --record record.npz
"""
from __future__ import print_function

import json
import os
import runpy
import sys

import numpy


class Done(BaseException):
    pass


def original():
    """(the executor's module, global_scope, the version)"""
    import paddle
    try:
        from paddle.fluid import executor
    except ImportError:
        from paddle.base import executor
    return executor, executor.global_scope, getattr(paddle, '__version__', 'unknown')


def trains(program):
    return any(op.type.endswith('_grad') for op in program.global_block().ops)


def array_of(value):
    lod = value.lod() if hasattr(value, 'lod') and callable(value.lod) else []
    return numpy.array(value), lod


def without_paths(program):
    """The program as bytes; where its ops were asked for is nobody else's business."""
    copy = program.clone()
    for block in copy.blocks:
        for op in block.ops:
            if op.has_attr('op_callstack'):
                op.desc.remove_attr('op_callstack')
    return copy.desc.serialize_to_string()


class Recorder(object):
    def __init__(self, steps, skip):
        self.steps, self.left, self.skip = steps, steps, skip
        self.arrays, self.meta = {}, {'lod': {}, 'feeds': [], 'fetches': []}

    def put(self, kind, name, value):
        array, lod = array_of(value)
        key = '%s/%s' % (kind, name)
        self.arrays[key] = array
        if lod:
            self.meta['lod'][key] = [list(level) for level in lod]

    def variables(self, kind, program, scope):
        for var in program.list_vars():
            found = scope.find_var(var.name) if var.persistable else None
            if found is None or var.name in ('feed', 'fetch'):
                continue
            try:
                self.put(kind, var.name, found.get_tensor())
            except Exception:  # readers and the like hold no tensor
                continue

    def step(self, run, program, given, scope):
        feed, fetches = given.get('feed'), given.get('fetch_list') or []
        if not isinstance(feed, dict):
            sys.exit('record: the step is fed by a reader or a list; give feed a dict for the recording')
        number = len(self.meta['feeds'])
        if number == 0:
            self.meta['fetches'] = [each if isinstance(each, str) else each.name for each in fetches]
            self.arrays['program'] = numpy.frombuffer(without_paths(program), dtype='uint8')
            self.variables('before', program, scope)
        self.meta['feeds'].append(sorted(feed))
        for name in feed:
            self.put('feed%d' % number, name, feed[name])
        results = run()
        self.left -= 1
        if self.left == 0:
            for name, value in zip(self.meta['fetches'], results or []):
                self.put('result', name, value)
            self.variables('after', program, scope)
            raise Done()
        return results


def watch(recorder):
    module, global_scope, _ = original()
    full = module.Executor.run
    names = ['program', 'feed', 'fetch_list', 'feed_var_name', 'fetch_var_name', 'scope']

    def run(executor, *args, **kwargs):
        given = dict(zip(names, args))
        given.update(kwargs)
        program = given.get('program')
        if program is None:
            program = module.default_main_program()
        program = getattr(program, '_program', program)
        again = lambda: full(executor, *args, **kwargs)  # noqa: E731
        if not hasattr(program, 'global_block') or not trains(program):
            return again()
        if recorder.skip > 0:
            recorder.skip -= 1
            return again()
        return recorder.step(again, program, given, given.get('scope') or global_scope())

    module.Executor.run = run


def options_of(arguments):
    options, script = {'--output': 'record.npz', '--steps': '1', '--skip': '0'}, None
    while arguments:
        word = arguments.pop(0)
        if word in options:
            options[word] = arguments.pop(0)
        else:
            script = word
            break
    while arguments and arguments[0] in options:
        word = arguments.pop(0)
        options[word] = arguments.pop(0)
    if script is None:
        sys.exit(__doc__)
    return script, arguments, options


def main():
    script, arguments, options = options_of(sys.argv[1:])
    recorder = Recorder(int(options['--steps']), int(options['--skip']))
    watch(recorder)
    output = os.path.abspath(options['--output'])
    sys.argv = [script] + arguments
    sys.path.insert(0, os.path.dirname(os.path.abspath(script)))
    try:
        runpy.run_path(script, run_name='__main__')
    except Done:
        recorder.meta['engine'] = 'PaddlePaddle ' + original()[2]
        recorder.arrays['meta'] = numpy.frombuffer(json.dumps(recorder.meta).encode('utf-8'), dtype='uint8')
        numpy.savez_compressed(output, **recorder.arrays)
        print('record: %d steps in %s' % (recorder.steps, output))
        return
    sys.exit('record: the script ended before %d training steps (a program with gradients, run by an Executor)'
             % recorder.steps)


if __name__ == '__main__':
    main()
