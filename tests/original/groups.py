"""Groups of cases: the files of cases/, each with records of its own."""
import importlib
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
NAMES = sorted(f[:-3] for f in os.listdir(os.path.join(HERE, 'cases'))
               if f.endswith('.py') and f != '__init__.py')
if HERE not in sys.path:
    sys.path.append(HERE)


def load(group):
    importlib.import_module('cases.' + group)


def load_all():
    for group in NAMES:
        load(group)


def path(group):
    return os.path.join(HERE, 'records', group + '.npz')


def files_path(group):
    return os.path.join(HERE, 'records', group + '.files.npz')
