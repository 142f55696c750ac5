"""Writers that are killed at random moments, and what stands in their directory afterwards."""
import os
import random
import signal
import time

import numpy
import paddle
import paddle.fluid as fluid

_LAYERS = 12


def build():
    """A program with many parameters, an optimizer's state, and its inference part."""
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        x = fluid.data('x', [None, 16])
        out = x
        for _ in range(_LAYERS):
            out = fluid.layers.fc(out, 16)
        inference = main.clone(for_test=True)
        fluid.optimizer.Momentum(0.1, 0.9).minimize(fluid.layers.mean(out))
    return main, inference, out.name


def _persistables(program):
    return [var for var in program.list_vars() if fluid.io.is_persistable(var)]


def fill(scope, program, number):
    for var in _persistables(program):
        scope.var(var.name).get_tensor().set(numpy.full(var.shape, number, var.dtype and 'float32'),
                                             fluid.CPUPlace())


def number_of(scope, program):
    """The one number that all variables hold; an assertion fails where there are several."""
    numbers = set()
    for var in _persistables(program):
        numbers.update(numpy.unique(numpy.array(scope.find_var(var.name).get_tensor())).tolist())
    assert len(numbers) == 1, f'a mix of saves {sorted(numbers)}'
    return numbers.pop()


class Way:
    """One way of saving: how it saves `program`, and how it loads it."""

    def __init__(self, main, save, load):
        self.main, self.save, self.load = main, save, load


def ways(main, inference, target):
    io, static = fluid.io, paddle.static
    exe = fluid.Executor(fluid.CPUPlace())
    out = [inference.global_block().var(target)]
    feed = [inference.global_block().var('x')]

    def persistables(filename=None):
        return Way(main, lambda d: io.save_persistables(exe, d, main, filename),
                   lambda d: io.load_persistables(exe, d, main, filename))

    def model(**files):
        return Way(inference, lambda d: io.save_inference_model(d, ['x'], out, exe, inference, **files),
                   lambda d: io.load_inference_model(d, exe, **files))
    return {
        'persistables, split': persistables(),
        'persistables, combined': persistables('all'),
        'vars': Way(inference, lambda d: io.save_vars(exe, d, inference, _persistables(inference)),
                    lambda d: io.load_vars(exe, d, inference, _persistables(inference))),
        'params': Way(inference, lambda d: io.save_params(exe, d, inference),
                      lambda d: io.load_params(exe, d, inference)),
        'model, split': model(),
        'model, combined': model(model_filename='m', params_filename='p'),
        'state': Way(main, lambda d: fluid.save(main, os.path.join(d, 'net')),
                     lambda d: fluid.load(main, os.path.join(d, 'net'), exe)),
        'static model': Way(inference,
                            lambda d: static.save_inference_model(
                                os.path.join(d, 'net'), feed, out, exe, program=inference),
                            lambda d: static.load_inference_model(os.path.join(d, 'net'), exe)),
    }


def _write_for_ever(way, directory, number, told):
    scope = fluid.Scope()
    with fluid.scope_guard(scope):
        while True:
            fill(scope, way.main, number)
            way.save(directory)
            os.write(told, b'.')
            number += 1


def kill_writers(directory, kills, seed):
    """Kills `kills` writers, a new one each time, and looks after each; returns saves seen whole."""
    draw = random.Random(seed)
    chosen = ways(*build())
    number = {name: 0 for name in chosen}
    for name, way in chosen.items():  # something old stands there
        with fluid.scope_guard(fluid.Scope()):
            fill(fluid.global_scope(), way.main, 0)
            way.save(os.path.join(directory, name))
    seen = 0
    for turn in range(kills):
        name = list(chosen)[turn % len(chosen)]
        way, place = chosen[name], os.path.join(directory, name)
        heard, told = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                _write_for_ever(way, place, number[name] + 1, told)
            finally:
                os._exit(1)
        os.close(told)
        time.sleep(draw.uniform(0, 0.08))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        saved = number[name]  # what the writer said it had saved
        while os.read(heard, 1):
            saved += 1
        os.close(heard)
        scope = fluid.Scope()
        with fluid.scope_guard(scope):
            way.load(place)
            found = number_of(scope, way.main)
        assert found in (saved, saved + 1), f'{name}: saved {saved}, found {found}'
        number[name] = int(found)
        seen += int(found) > 0
    for name, way in chosen.items():  # the next writer cleans up
        with fluid.scope_guard(fluid.Scope()):
            fill(fluid.global_scope(), way.main, 7)
            way.save(os.path.join(directory, name))
        left = [entry for entry in os.listdir(os.path.join(directory, name))
                if entry.startswith('.trireme') or '.tmp.' in entry]
        assert left == ['.trireme.sums'], left
    return seen
