"""Which runs are compared, and what is promised of each: equal bits, or a bound and why."""
import os
import tempfile

import numpy

import _trireme as _C

from ..fluid import core
from ..fluid import io as fluid_io
from ..fluid.compiler import CompiledProgram
from ..fluid.executor import Executor
from ..fluid.framework import Program

EQUAL, WITHIN, DIFFERS, NOT_RUN = 'equal bits', 'within the bound', 'differs', 'not run'
# float32 sums in another order: what is lost is a few units in the last place, of a few hundred terms.
SUMS = 2e-5
HALF = 4e-3  # the same where numbers have 8 or 11 bits
DEVICE = 1e-4  # another machine's sums, products and functions
ORIGINAL = 1e-4  # another engine's


# What says that a program cannot be run in this way: its batch has a fixed size, or an op knows no places.
_CANNOT = (RuntimeError, ValueError, NotImplementedError)


class Subject:
    """A program with what a step of it is run on."""

    def __init__(self, program, feed, scope, fetches):
        self.compiled = program if isinstance(program, CompiledProgram) else None
        self.program = program._program if self.compiled else program
        self.feed, self.scope, self.fetches = feed, scope, list(fetches)

    def run(self, place=None, program=None, scope=None, **way):
        return _C.StepValues(program or self.program, self.feed, scope or self.scope, place or core.CPUPlace(), **way)

    @property
    def trains(self):
        return any(op._is_backward_op() for op in self.program.global_block().ops)

    def sums_its_loss(self):
        """The op that makes the loss, where that is no mean over samples; None where it is, or nothing is trained."""
        ops = self.program.global_block().ops
        start = next((op for op in ops if op.attr('op_role') == 257), None) if self.trains else None
        if start is None:
            return None
        makers = {name: op for op in ops[:ops.index(start)] for name in op.output_arg_names}
        fed = {var.name for var in self.program.list_vars() if var.is_data}

        def sees_samples(name, seen):
            if name in fed or name in seen or name not in makers:
                return name in fed
            seen.add(name)
            return any(sees_samples(each, seen) for each in makers[name].input_arg_names)

        shapes = {var.name: var.shape for var in self.program.list_vars() if var._has_shape}

        def mixes(name, seen):
            """The op that makes one number of all samples (a count of boxes, say), or that chooses how many
            rows a sample has, on the way to `name`."""
            op = makers.get(name)
            if op is None or name in seen:
                return None
            seen.add(name)
            if op.type in _CHOOSERS:
                return op.type
            if op.type in _REDUCTIONS and shapes.get(name, (-1,))[:1] != (-1,) and sees_samples(name, set()) \
                    and shapes.get(op.input('X')[0], ())[:1] == (-1,):
                return op.type
            return next(filter(None, (mixes(each, seen) for each in op.input_arg_names)), None)

        def other(name):
            """None for a mean over samples, what adds means up, and what no sample decides."""
            op = makers.get(name)
            if op is None or not sees_samples(name, set()):
                return None
            if op.type in ('mean', 'reduce_mean'):
                return mixes(op.input('X')[0], set())
            seen = [each for each in op.input_arg_names if sees_samples(each, set())]
            sums = op.type in ('elementwise_add', 'elementwise_sub', 'sum')
            scales = len(seen) == 1 and op.type in ('scale', 'cast', 'reshape2', 'elementwise_mul', 'elementwise_div') \
                and seen[0] == op.input('X')[0]
            return next(filter(None, map(other, seen)), None) if sums or scales else op.type
        return other(start.output_arg_names[0].partition('@GRAD')[0])

    def is_half(self):
        half = {core.VarDesc.VarType.FP16, core.VarDesc.VarType.BF16}
        return any(var._has_shape and var.dtype in half for var in self.program.list_vars())

    def remote_op(self):
        """An op that talks to others: a step of it cannot be run a second time by itself."""
        return next((op.type for op in self.program.global_block().ops
                     if (op.has_attr('op_role') and op.attr('op_role') & _RPC) or op.type == 'listen_and_serv'), None)


# Ops that choose how many of a picture's boxes are learnt from: a mean over those is none over pictures.
_CHOOSERS = {'generate_proposal_labels', 'generate_mask_labels', 'rpn_target_assign', 'retinanet_target_assign'}
# Ops that may make one number of all samples.
_REDUCTIONS = {'mean', 'reduce_sum', 'reduce_mean', 'reduce_max', 'reduce_min', 'reduce_prod', 'norm', 'squared_l2_norm'}
_RPC = 4  # of op_role: it talks to other processes


def _entry(name, bound, why, found=None, not_run=None):
    entry = {'name': name, 'bound': bound, 'why': why}
    if found is None:
        return dict(entry, verdict=NOT_RUN, why=not_run)
    first = {key: found[key] for key in ('op', 'differs', 'line', 'difference') if key in found}
    verdict = DIFFERS if first else EQUAL if found['equal'] == found['compared'] else WITHIN
    if not found['compared']:
        return dict(entry, verdict=NOT_RUN, why='the two runs show no variable that could be compared')
    entry.update(verdict=verdict, compared=found['compared'], equal=found['equal'], largest=found['largest'],
                 variable=found['variable'])
    if found['left_out']:
        entry['left_out'] = found['left_out']
    return dict(entry, first=first) if first else entry


def _says(error):
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__


class Certificate:
    def __init__(self, subject):
        self.subject, self.entries = subject, []
        self._passes = _C.pass_names()
        self._sums = HALF if subject.is_half() else SUMS

    def _compare(self, name, bound, why, a, run_b, skip=()):
        """Errors in `skip` mean that the second run does not exist for this program."""
        try:
            found = _C.compare_steps(self.subject.program, a, run_b(), bound)
        except skip as error:
            return self.entries.append(_entry(name, bound, why, not_run=_says(error)))
        self.entries.append(_entry(name, bound, why, found))

    def passes(self, base):
        run, names = self.subject.run, self._passes
        self._compare('the same once more', 0, 'nothing but the program and its data decides', base,
                      lambda: run(passes_off=names, threads=1))
        for each in names:
            off = [name for name in names if name != each]
            rounds = each in _C.passes_that_round()
            self._compare(f'pass {each}', self._sums if rounds else 0, 'it sums in another order' if rounds else 'it changes no bit',
                          base, lambda: run(passes_off=off, threads=1))
        self._compare('all passes', self._sums, 'a pass may sum in another order', base, lambda: run(threads=1))
        if self.subject.fetches:
            self._compare('all passes, as it runs', self._sums, 'what nobody fetches is not stored', base,
                          lambda: run(threads=1, fetches=self.subject.fetches))
        passed = run(threads=1)
        self._compare('all threads', 0, 'work is cut by sizes alone, whoever does it', passed, run)
        return passed

    def places(self, passed):
        run = self.subject.run
        norms = any(op.type.startswith('batch_norm') for op in self.subject.program.global_block().ops)
        why = 'gradients are summed place by place' + (', batch_norm over all of them' if norms else '')
        other = self.subject.sums_its_loss()
        for count in (2, 4):
            if other:
                self.entries.append(_entry(f'{count} places', 0, '', not_run=f'the loss is made by {other} and no mean over '
                                           'samples: each place divides its own, which is another loss (docs/data_parallel.md)'))
                continue
            self._compare(f'{count} places', (10 if norms else 1) * self._sums, why, passed,
                          lambda: run(devices=count, sync_batch_norm=norms), skip=_CANNOT)
        try:
            both = run(devices=2, sync_batch_norm=norms)
        except _CANNOT as error:
            return self.entries.append(_entry('2 places, one thread', 0, '', not_run=_says(error)))
        return self._compare('2 places, one thread', 0, 'places take turns where there are fewer threads', both,
                             lambda: run(devices=2, sync_batch_norm=norms, threads=1))

    def device(self, passed):
        try:
            Executor(core.CUDAPlace(0)).run(_one_op())  # says what is missing
        except (RuntimeError, ValueError, OSError) as error:
            return self.entries.append(_entry('GPU', DEVICE, '', not_run=_says(error)))
        return self._compare('GPU', DEVICE, "the device's own sums, products and functions", passed,
                             lambda: self.subject.run(place=core.CUDAPlace(0)))

    def saved(self, passed):
        subject = self.subject
        with tempfile.TemporaryDirectory() as folder:
            program = Program.parse_from_string(subject.program.desc.serialize_to_string())
            program.random_seed = subject.program.random_seed
            loaded = core.Scope()
            held = [var for var in subject.program.list_vars() if fluid_io.is_persistable(var) and _is_held(subject.scope, var.name)]
            if held:
                executor = Executor(core.CPUPlace())
                before = _C.switch_scope(subject.scope)
                try:
                    fluid_io.save_vars(executor, folder, subject.program, vars=held)
                    _C.switch_scope(loaded)
                    fluid_io.load_vars(executor, folder, program, vars=held)
                finally:
                    _C.switch_scope(before)
            self._compare('saved and loaded', 0, 'files hold every bit', passed,
                          lambda: subject.run(program=program, scope=loaded))
            self._compiled_file(folder, passed)

    def _compiled_file(self, folder, passed):
        subject, path = self.subject, os.path.join(folder, 'compiled')
        whole, loaded = _C.copied_scope(subject.scope), core.Scope()  # those around it, too

        def run():
            CompiledProgram(subject.program).save(path, scope=whole)
            program = CompiledProgram.load(path, Executor(core.CPUPlace()), scope=loaded)._program
            return subject.run(program=program, scope=loaded)
        self._compare('compiled program in a file', 0, 'files hold every bit', passed, run)

    def record(self, held):
        """The step of the original, from `record.py`."""
        subject = self.subject
        scope, executor = core.Scope(), Executor(core.CPUPlace())
        for name, value in held.before.items():
            scope.var(name).get_tensor().set(value, core.CPUPlace())
        results = []
        for feed in held.feeds:
            results = executor.run(subject.program, feed=feed, fetch_list=held.fetches, scope=scope, return_numpy=False)
        ours = {name: numpy.array(value) for name, value in zip(held.fetches, results)}
        for name in held.after:
            found = scope.find_var(name)
            if found is not None and found.is_initialized():
                ours[name] = numpy.array(found.get_tensor())
        theirs = dict(held.after, **held.results)
        common = [name for name in theirs if name in ours and theirs[name].shape == ours[name].shape]
        given = _C.StepValues.given
        self._compare(f'the record of {held.engine}, {len(held.feeds)} steps', ORIGINAL, 'another engine sums in another order',
                      given(subject.program, {name: theirs[name] for name in common}),
                      lambda: given(subject.program, {name: ours[name] for name in common}))
        for name in sorted(set(theirs) - set(common)):
            self.entries.append(_entry(f'the record of {held.engine}: {name}', ORIGINAL, '',
                                       not_run='this program has no such variable, or of another shape'))


def _one_op():
    program = Program()
    block = program.global_block()
    block.append_op('fill_constant', outputs={'Out': [block.create_var(name='one', shape=[1], dtype='float32')]},
                    attrs={'shape': [1], 'dtype': core.VarDesc.VarType.FP32, 'value': 1.0})
    return program


def _is_held(scope, name):
    found = scope.find_var(name)
    return found is not None and found.is_initialized()


def certify(program, feed, scope=None, fetches=(), record=None, title=''):
    """Runs one step of a program in every way and gives the certificate, a dict. The scope stays as it is."""
    subject = Subject(program, feed, scope or _C.global_scope(), fetches)
    made = Certificate(subject)
    remote = subject.remote_op()
    if remote:
        made.entries.append(_entry('every comparison', 0, '', not_run=f'the program has {remote}: a step of it needs the other '
                                   'processes of its job, and cannot be run again by itself'))
    else:
        base = subject.run(passes_off=_C.pass_names(), threads=1)
        passed = made.passes(base)
        made.places(passed)
        made.device(passed)
        made.saved(passed)
    if record is not None:
        made.record(record)
    verdicts = [entry['verdict'] for entry in made.entries]
    return {'format': 'trireme certificate 1', 'of': title, 'trains': subject.trains,
            'ops': sum(len(block.ops) for block in subject.program.blocks), 'comparisons': made.entries,
            'verdict': DIFFERS if DIFFERS in verdicts else NOT_RUN if set(verdicts) == {NOT_RUN} else 'the same'}



