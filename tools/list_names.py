"""Prints the public names of PaddlePaddle's modules. Run inside a PaddlePaddle, old or new.

    python tools/list_names.py MODULE...

Public is what a module's __all__ says. tools/names.txt holds what this prints for 1.8.5 and 2.6.2.
"""
from __future__ import print_function

import importlib
import sys
import textwrap

import paddle


def main():
    for name in sys.argv[1:]:
        names = sorted(set(importlib.import_module(name).__all__))
        print('\n[%s %s]' % (paddle.__version__, name))
        print('\n'.join(textwrap.wrap(' '.join(names), 108)))


if __name__ == '__main__':
    main()
