"""Files that one engine writes and the other reads: inference models of every case, and training states.

    PYTHON tests/original/files.py write DIR    writes DIR/CASE/, with the parameters of the records
    PYTHON tests/original/files.py check DIR    reads and runs what the other one wrote, and prints counts
    PYTHON tests/original/files.py write-programs DIR
    PYTHON tests/original/files.py check-programs DIR    the same for whole programs, gradients and updates included
    python2.7 tests/original/files.py slots FILE    the slots and attributes that the original's ops have in them
    python2.7 tests/original/files.py record-programs FILE    programs that the original made, for records/programs.npz

Both run in the original (Python 2.7) and in ours. Outputs are compared with the records. The original's files
are also kept, in records/*.files.npz, for tests that need no original.
"""
from __future__ import print_function
import json
import os
import pickle
import shutil
import sys
import tempfile
import warnings

import numpy as np
import paddle.fluid as fluid

import groups
import store
from case import CASES, STEPS, Case, _array, _fresh, _set, _start, run_case
from compare import OF_LARGEST

# Training programs of the original that are kept: gradients of gradients, and ops whose gradients were misread once.
KEPT_PROGRAMS = ['sequence_pool_' + how for how in ('average', 'first', 'last', 'max', 'sqrt', 'sum')] + [
    'lstm_unit', 'lstm_unit_forget', 'sampled_softmax_own_samples', 'seq2seq_of_cells', 'conv2d', 'batch_norm_trained',
    'rnn_of_lstm_cell_with_lengths', 'nested_cond_trained', 'while_with_arrays_and_gradients',
    'affine_channel', 'pixel_shuffle', 'sequence_scatter', 'training_helper', 'training_helper_by_time']
KEPT_STEPS = 2

MORE_STEPS = 3  # losses after a saved state was loaded

# Cases whose training goes on from files: save_persistables in a folder, in one file, and fluid.save.
RESUMED = {'mlp_of_digits': 'split', 'word2vec': 'combined', 'batch_norm_trained': 'fluid.save',
           'adam_large_epsilon': 'fluid.save', 'momentum': 'combined', 'lenet': 'split'}


def _parameters(record):
    return {key[len('parameter/'):]: value for key, (value, _) in record[0].items()
            if key.startswith('parameter/')}


def _build(name, known):
    """Builds a case into the fresh programs: (case, results, executor)."""
    c = Case(name)
    outs = CASES[name][1](c)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    _set(fluid.global_scope(), _start(c, fluid.default_main_program(), fluid.global_scope(), known)[0])
    return c, list(outs) if isinstance(outs, (list, tuple)) else [outs], exe


def write_model(name, record, folder):
    """save_inference_model of a case that does not train; parameters in files of their own in group nn."""
    with _fresh() as (main, _):
        c, outs, exe = _build(name, _parameters(record))
        combined = None if CASES[name][0] == 'nn' else 'params'
        fluid.io.save_inference_model(folder, [var.name for var, _, _, _ in c.inputs], outs, exe, main,
                                      params_filename=combined)


def run_model(name, record, folder):
    """[(array, lod)]: what a saved model gives for the record's feed."""
    with _fresh():
        exe = fluid.Executor(fluid.CPUPlace())
        combined = 'params' if os.path.exists(os.path.join(folder, 'params')) else None
        program, feeds, targets = fluid.io.load_inference_model(folder, exe, params_filename=combined)
        feed = {}
        for key, (value, lod) in record[0].items():
            if key.startswith('feed/') and key[len('feed/'):] in feeds:
                feed[key[len('feed/'):]] = (fluid.create_lod_tensor(value, lod, fluid.CPUPlace()) if lod
                                            else value)
        return [_array(t) for t in exe.run(program, feed=feed, fetch_list=targets, return_numpy=False)]


def write_state(name, record, folder):
    """Trains as the record has it and saves what a later run goes on from. Returns the losses after that."""
    with _fresh() as (main, _):
        c, outs, exe = _build(name, _parameters(record))
        for step in range(STEPS):
            exe.run(main, feed=c.feed(step), fetch_list=outs)
        if RESUMED[name] == 'fluid.save':
            fluid.save(main, os.path.join(folder, 'state'))
        else:
            fluid.io.save_persistables(exe, folder, main, 'all' if RESUMED[name] == 'combined' else None)
        return _more_losses(c, outs, exe, main)


def resume(name, folder):
    """Losses of a run that starts from a saved state."""
    with _fresh() as (main, _):
        c, outs, exe = _build(name, None)
        if RESUMED[name] == 'fluid.save':
            fluid.load(main, os.path.join(folder, 'state'), exe)
        else:
            fluid.io.load_persistables(exe, folder, main, 'all' if RESUMED[name] == 'combined' else None)
        return _more_losses(c, outs, exe, main)


def _more_losses(c, outs, exe, main):
    found = [exe.run(main, feed=c.feed(STEPS + step), fetch_list=outs)[0] for step in range(MORE_STEPS)]
    return np.concatenate([np.asarray(value).reshape(-1) for value in found])


def _without_call_stacks(folder):
    """Ops of the original carry lines of its own sources, which are no part of a record."""
    from paddle.fluid.proto import framework_pb2
    for name in os.listdir(folder):
        if name not in ('__model__', 'program') and not name.endswith('.pdmodel'):
            continue
        path = os.path.join(folder, name)
        with open(path, 'rb') as stream:
            program = framework_pb2.ProgramDesc.FromString(stream.read())
        for block in program.blocks:
            for op in block.ops:
                for i in reversed(range(len(op.attrs))):
                    if op.attrs[i].name == 'op_callstack':
                        del op.attrs[i]
        with open(path, 'wb') as stream:
            stream.write(program.SerializeToString())


def contents(folder):
    """name -> bytes as an array, of every file in a folder."""
    found = {}
    for where, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(where, name)
            with open(path, 'rb') as stream:
                found[os.path.relpath(path, folder)] = np.frombuffer(stream.read(), 'uint8')
    return found


def unpack(arrays, folder):
    """Puts the files of a record into a folder."""
    for key, (value, _) in arrays.items():
        if key.startswith('file/'):
            with open(os.path.join(folder, key[len('file/'):]), 'wb') as stream:
                stream.write(value.tobytes())


def record_files(name, record):
    """What the original writes for a case, for records/."""
    folder = tempfile.mkdtemp()
    try:
        if name in RESUMED:
            arrays = {'losses': write_state(name, record, folder)}
        else:
            write_model(name, record, folder)
            # A model is saved for testing: batch_norm, say, gives other numbers than the case.
            arrays = {'out/%d' % i: value for i, value in enumerate(run_model(name, record, folder))}
        _without_call_stacks(folder)
        arrays.update(('file/' + key, value) for key, value in contents(folder).items())
        return arrays, {}
    finally:
        shutil.rmtree(folder)


def worth_a_model(name, record):
    """Cases that run once, on feeds, and draw nothing."""
    keys = record[0]
    return (any(key.startswith('feed/') for key in keys) and 'out/0' in keys and not record[1]['random']
            and 'py_func' not in record[1]['layers'])  # functions are in no file


def _all():
    groups.load_all()
    for group in groups.NAMES:
        for name, record in sorted(store.load(groups.path(group)).items()):
            yield group, name, record


def write(folder):
    """Every case that one can save, by the engine at hand."""
    written, failed = 0, []
    for group, name, record in _all():
        to = os.path.join(folder, name)
        try:
            if name in RESUMED:
                os.makedirs(to)
                np.save(os.path.join(to, 'losses.npy'), write_state(name, record, to))
            elif worth_a_model(name, record):
                write_model(name, record, to)
                found = run_model(name, record, to)
                np.savez(to + '.npz', **{'out%d' % i: value for i, (value, _) in enumerate(found)})
            else:
                continue
            written += 1
        except Exception as error:
            shutil.rmtree(to, ignore_errors=True)
            failed.append('%s/%s: %s' % (group, name, str(error).strip().splitlines()[-1]))
    print('\n'.join(failed))
    print('%d written, %d not' % (written, len(failed)))


def _off(found, wanted, allowed=2e-6):
    """What tells results from those that are wanted; None if nothing does. allowed: that any number may be off."""
    for i, (value, other) in enumerate(zip(found, wanted)):
        if value.shape != other.shape:
            return 'result %d has shape %s, not %s' % (i, value.shape, other.shape)
        largest = np.abs(other[np.isfinite(other)]).max() if np.isfinite(other).any() else 0.0
        if not np.allclose(value, other, 2e-5, max(allowed, OF_LARGEST * largest), equal_nan=True):
            return 'result %d is off by %g' % (i, np.abs(value.astype('float64') - other).max())
    return None


def _judge(name, kept, record, folder):
    """(kind, why): 'equal' to what the reader makes of its own file, 'as the writer' means it, or 'different'.

    kept: the original's own files of the case, with what it computes from them.
    """
    if name in RESUMED:
        losses, found = np.load(os.path.join(folder, 'losses.npy')), resume(name, folder)
        same = np.allclose(found, losses, 2e-5, 1e-7)
        return ('equal', '') if same else ('different', 'losses %s, not %s' % (found, losses))
    found = [value for value, _ in run_model(name, record, folder)]
    why = _off(found, [kept[0]['out/%d' % i][0] for i in range(len(found))])
    if why is None:
        return 'equal', ''
    with np.load(folder + '.npz') as written:
        as_meant = _off(found, [written['out%d' % i] for i in range(len(found))]) is None
    return 'as the writer' if as_meant else 'different', why


def check(folder):
    """Reads and runs what is in the folder, each case in a process of its own."""
    from record import in_child
    counts = {'equal': 0, 'as the writer': 0, 'different': 0}
    kept = {name: files for group in groups.NAMES if os.path.exists(groups.files_path(group))
            for name, files in store.load(groups.files_path(group)).items()}
    for group, name, record in _all():
        if name in kept and os.path.isdir(os.path.join(folder, name)):
            judged, error = in_child(_judge, name, kept[name], record, os.path.join(folder, name))
            kind, why = judged or ('different', error.strip().splitlines()[-1])
            counts[kind] += 1
            if kind != 'equal':
                print('%s/%s: %s: %s' % (group, name, kind, why))
    print(', '.join('%d %s' % (counts[kind], kind) for kind in ('equal', 'as the writer', 'different')))
    return 1 if counts['different'] else 0


# Whole programs.

class _LastProgram(object):
    """Takes note of what an executor runs: the last program, the state before it, feeds, names and results."""

    def __init__(self):
        self.program, self.state, self.steps, self.names = None, {}, [], []
        self._run = fluid.Executor.run

    def __enter__(self):
        def run(exe, program=None, feed=None, fetch_list=None, return_numpy=True):
            if isinstance(program, fluid.Program) and fetch_list:
                names = [getattr(item, 'name', item) for item in fetch_list]
                if program is not self.program or names != self.names:
                    self.program, self.names, self.steps = program, names, []
                    self.state = self._state(program)
            results = self._run(exe, program, feed=feed, fetch_list=fetch_list, return_numpy=False)
            if isinstance(program, fluid.Program) and fetch_list:
                self.steps.append((feed, [_array(value) for value in results]))
            return [np.array(value) for value in results] if return_numpy else results
        fluid.Executor.run = run
        return self

    def __exit__(self, *_):
        fluid.Executor.run = self._run

    @staticmethod
    def _state(program):
        scope, found = fluid.global_scope(), {}
        for var in program.list_vars():
            held = scope.find_var(var.name) if var.persistable and var.name not in ('feed', 'fetch') else None
            if held is not None and held.get_tensor()._is_initialized():
                found[var.name] = np.array(held.get_tensor())
        return found


def write_program(name, record, folder, most=None):
    with _LastProgram() as last:
        run_case(name, _parameters(record), any(key.startswith('gradient/') for key in record[0]))
    with open(os.path.join(folder, 'program'), 'wb') as out:
        out.write(last.program.desc.serialize_to_string())
    steps = [({key: (value, []) if isinstance(value, np.ndarray) else _array(value) for key, value in feed.items()},
              results) for feed, results in last.steps[:most]]
    with open(os.path.join(folder, 'steps'), 'wb') as out:
        pickle.dump((last.state, last.names, steps), out, 2)


def _judge_program(folder, allowed):
    with open(os.path.join(folder, 'program'), 'rb') as text:
        program = fluid.Program.parse_from_string(text.read())
    with open(os.path.join(folder, 'steps'), 'rb') as kept:
        state, names, steps = pickle.load(kept) if str is bytes else pickle.load(kept, encoding='latin1')
    exe, place = fluid.Executor(fluid.CPUPlace()), fluid.CPUPlace()
    with fluid.scope_guard(fluid.Scope()):
        for name, value in state.items():
            fluid.global_scope().var(name).get_tensor().set(value, place)
        for feed, results in steps:
            feed = {key: fluid.create_lod_tensor(value, lod, place) if lod else value
                    for key, (value, lod) in feed.items()}
            found = [_array(value)[0] for value in exe.run(program, feed=feed, fetch_list=names, return_numpy=False)]
            why = _off(found, [value for value, _ in results], max(allowed, 2e-6))
            if why:
                return 'different', why
    return 'equal', ''


def _programs():
    for group, name, record in _all():
        if not record[1]['random'] and 'py_func' not in record[1]['layers'] and group not in ('parallel', 'seeded'):
            yield group, name, record


_EVERYWHERE = {'op_role', 'op_role_var', 'op_namescope', 'op_device', 'op_callstack'}


def ops_run(name, record):
    with _LastProgram() as last:
        run_case(name, _parameters(record), any(key.startswith('gradient/') for key in record[0]))
    return [op for block in last.program.blocks for op in block.ops]


def record_slots(path):
    """Of every type of op: inputs and outputs that are filled somewhere, attributes that are there always."""
    found = {}
    for _, name, record in _programs():
        for op in ops_run(name, record):
            inputs, outputs, attrs = found.setdefault(op.type, (set(), set(), set(op.attr_names) - _EVERYWHERE))
            inputs.update(slot for slot in op.input_names if op.input(slot))
            outputs.update(slot for slot in op.output_names if op.output(slot))
            attrs.intersection_update(op.attr_names)
    with open(path, 'w') as out:
        for kind in sorted(found):
            out.write(json.dumps([kind] + [sorted(part) for part in found[kind]]) + '\n')


def write_programs(folder):
    written, failed = 0, []
    for group, name, record in _programs():
        to = os.path.join(folder, name)
        os.makedirs(to)
        try:
            write_program(name, record, to)
            written += 1
        except Exception as error:
            shutil.rmtree(to)
            failed.append('%s/%s: %s' % (group, name, str(error).strip().splitlines()[-1]))
    print('\n'.join(failed))
    print('%d written, %d not' % (written, len(failed)))


def record_programs(path):
    records = {}
    for _, name, record in _programs():
        if name not in KEPT_PROGRAMS and not name.startswith('second_of_'):
            continue
        folder = tempfile.mkdtemp()
        try:
            write_program(name, record, folder, KEPT_STEPS)
            _without_call_stacks(folder)
            records[name] = ({'file/' + key: value for key, value in contents(folder).items()}, {})
        finally:
            shutil.rmtree(folder)
    store.save(path, records, 'PaddlePaddle 1.8.5 on CPU')
    print('%d programs, %d bytes' % (len(records), os.path.getsize(path)))


def check_programs(folder):
    """Runs the programs in the folder, each in a process of its own."""
    from departures import ALLOWANCES, DEPARTURES
    from record import in_child
    counts = {}
    for group, name, _ in _programs():
        to = os.path.join(folder, name)
        if not os.path.isdir(to):
            continue
        judged, error = in_child(_judge_program, to, ALLOWANCES.get(name, (0.0,))[0])
        kind, why = judged or ('not run', error.strip().splitlines()[-1])
        kind = 'on the departures page' if kind == 'different' and name in DEPARTURES else kind
        counts[kind] = counts.get(kind, 0) + 1
        if kind in ('different', 'not run'):
            print('%s/%s: %s: %s' % (group, name, kind, why))
    print(', '.join('%d %s' % (counts[kind], kind) for kind in sorted(counts)))
    return 1 if counts.get('different') or counts.get('not run') else 0


def main(arguments):
    warnings.simplefilter('ignore')
    commands = {'write': write, 'check': check, 'write-programs': write_programs, 'check-programs': check_programs,
                'slots': record_slots, 'record-programs': record_programs}
    if len(arguments) != 2 or arguments[0] not in commands:
        sys.exit(__doc__)
    sys.exit(commands[arguments[0]](arguments[1]))


if __name__ == '__main__':
    main(sys.argv[1:])
