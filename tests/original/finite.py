"""Gradients of a case by central differences of its own forward run: who is right where two engines differ."""
import numpy as np

import paddle.fluid as fluid
from case import CASES, Case, _array, _fresh, _generator, _set, _start, draw

STEP = 4e-3


def numeric_gradients(name, recorded, wanted):
    """name -> array, for inputs and parameters whose names are wanted; parameters are the record's."""
    arrays, _ = recorded
    known = {key[len('parameter/'):]: value for key, (value, _) in arrays.items()
             if key.startswith('parameter/')}
    c = Case(name)
    with _fresh() as (main, startup):
        outs = CASES[name][1](c)
        outs = list(outs) if isinstance(outs, (list, tuple)) else [outs]
        scope, exe = fluid.global_scope(), fluid.Executor(fluid.CPUPlace())
        exe.run(startup)
        values, _ = _start(c, main, scope, known)
        feed, lods = {}, {}
        for var, make, lod, _ in c.inputs:
            feed[var.name], lods[var.name] = make(0), lod

        def total():
            _set(scope, values)
            given = {n: fluid.create_lod_tensor(v, lods[n], fluid.CPUPlace()) if lods[n] else v
                     for n, v in feed.items()}
            found = exe.run(main, feed=given, fetch_list=outs, return_numpy=False)
            sum_, i = 0.0, 0
            for var, tensor in zip(outs, found):
                value = _array(tensor)[0]
                if value.dtype.kind == 'f' and not var.stop_gradient and value.size:
                    weight = draw(_generator(name, 'weight', i), value.shape, -1.0, 1.5)
                    sum_, i = sum_ + float((value.astype('float64') * weight).sum()), i + 1
            return sum_

        gradients = {}
        for key in wanted:
            at = feed if key in feed else values
            start, gradient = at[key], np.zeros(at[key].shape)
            for index in np.ndindex(*start.shape):
                ends = []
                for move in (STEP, -STEP):
                    at[key] = start.copy()
                    at[key][index] += move
                    ends.append((total(), float(at[key][index])))
                gradient[index] = (ends[0][0] - ends[1][0]) / (ends[0][1] - ends[1][1])
            at[key] = start
            gradients[key] = gradient
        return gradients


def distance(gradient, numeric):
    """How far a gradient is from the numeric one, as a part of the largest number in it."""
    return float(np.abs(gradient - numeric).max() / max(np.abs(numeric).max(), 1e-3))
