"""Groups of cases: the files of cases/ and cases26/, each with records of its own."""
import importlib
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def _files(folder):
    return sorted(f[:-3] for f in os.listdir(os.path.join(HERE, folder))
                  if f.endswith('.py') and f != '__init__.py')


NAMES = _files('cases')  # recorded from 1.8.5
LATER = _files('cases26')  # recorded from 2.6.2
if HERE not in sys.path:
    sys.path.append(HERE)


def load(group):
    importlib.import_module(('cases.' if group in NAMES else 'cases26.') + group)


def load_all(names=None):
    for group in names or NAMES:
        load(group)


def path(group):
    return os.path.join(HERE, 'records', group + '.npz')


def files_path(group):
    return os.path.join(HERE, 'records', group + '.files.npz')
