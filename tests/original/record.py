"""Records what PaddlePaddle 1.8.5 computes for every case: run it with the original's Python.

In 2.6.2 the same commands (python3) record the groups of cases26/.

    python2.7 tests/original/record.py              every group of cases/
    python2.7 tests/original/record.py nn loss      these groups
    python2.7 tests/original/record.py nn:fc,conv2d these cases of a group; its other records stay
    python2.7 tests/original/record.py --files [nn] the files that it writes for recorded cases
    python2.7 tests/original/record.py --names      the names of its layers and optimizers
    python2.7 tests/original/record.py --try CASE   one case, printed and not kept

Every case runs in a process of its own, so that one that ends its process does not take the others along.
A case that fails here is not recorded; it is named, and the exit status is 1.
"""
from __future__ import print_function
import os
import pickle
import signal
import sys
import traceback
import warnings

import groups
import store
from case import cases_of, run_case

LIMIT = 300  # seconds that a case may take


def in_child(function, *arguments):
    """What function returns, from a process of its own; the text of its error instead if it fails."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        signal.alarm(LIMIT)
        with os.fdopen(writing, 'wb') as pipe:
            try:
                result = function(*arguments), None
            except BaseException:
                result = None, traceback.format_exc()
            pickle.dump(result, pipe, 2)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, 'rb') as pipe:
        data = pipe.read()
    status = os.waitpid(child, 0)[1]
    return pickle.loads(data) if data else (None, 'the process ended with status %d' % status)


def show(name):
    arrays, about = run_case(name)
    print(about)
    for key in sorted(arrays):
        print(key, arrays[key])


def record_names():
    import paddle.fluid as fluid
    with open(os.path.join(groups.HERE, 'records', 'names.txt'), 'w') as names:
        for module in (fluid.layers, fluid.optimizer):
            for name in sorted(set(module.__all__)):
                names.write('%s.%s\n' % (module.__name__.split('.')[-1], name))


def record_files(wanted):
    import files
    groups.load_all()
    for group in wanted:
        records = {}
        for name, record in sorted(store.load(groups.path(group)).items()):
            if name not in files.RESUMED and not files.worth_a_model(name, record):
                continue
            found, error = in_child(files.record_files, name, record)
            if error:
                print('%s/%s has no files: %s' % (group, name, error.strip().splitlines()[-1]))
            else:
                records[name] = found
        if records:
            store.save(groups.files_path(group), records, 'PaddlePaddle 1.8.5 on CPU')
            print('%s: files of %d cases, %d bytes' % (group, len(records),
                                                       os.path.getsize(groups.files_path(group))))
            sys.stdout.flush()


def recorded_by(version):
    """The groups that this release records."""
    found = {'1.8.5': groups.NAMES, '2.6.2': groups.LATER}.get(version)
    if found is None:
        sys.exit('records are made by PaddlePaddle 1.8.5 and 2.6.2; this is ' + version)
    return found


def main(arguments):
    import paddle
    if arguments[:1] == ['--try']:
        groups.load_all(recorded_by(paddle.version.full_version))
        return show(arguments[1])
    version = paddle.version.full_version
    recorded = recorded_by(version)
    warnings.simplefilter('ignore')  # of startup programs without ops
    if arguments[:1] == ['--names']:
        return record_names()
    if arguments[:1] == ['--files']:
        return record_files(arguments[1:] or groups.NAMES)
    failed = []
    for argument in arguments or recorded:
        group, _, some = argument.partition(':')
        groups.load(group)
        names, records = cases_of(group), {}
        if some:
            records = {name: record for name, record in store.load(groups.path(group)).items() if name in names}
            names = some.split(',')
        for name in names:
            found, error = in_child(run_case, name)
            if error:
                failed.append(name)
                print('%s/%s fails in the original: %s' % (group, name, error.strip().splitlines()[-1]))
            else:
                records[name] = found
                if 'refused' in found[1]:
                    print('%s/%s has no gradient: %s' % (group, name, found[1]['refused']))
        path = groups.path(group)
        store.save(path, records, 'PaddlePaddle %s on CPU' % version)
        print('%s: %d cases, %d bytes' % (group, len(records), os.path.getsize(path)))
        sys.stdout.flush()
    sys.exit(1 if failed else 0)


if __name__ == '__main__':
    main(sys.argv[1:])
