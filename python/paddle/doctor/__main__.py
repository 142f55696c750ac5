"""python -m paddle.doctor PATH...: prints what of scripts and model files works here; exits with 1 where something
does not, with 2 where a path cannot be read."""
import argparse
import os
import sys

from . import models
from .scripts import check_script


def _paths(given):
    """The scripts and models in what was given; folders with everything below them."""
    for path in given:
        if not os.path.isdir(path):
            yield path
            continue
        for folder, folders, files in os.walk(path):
            folders[:] = sorted(name for name in folders if not name.startswith('.'))
            yield from (os.path.join(folder, name) for name in sorted(files)
                        if name.endswith('.py') or models.is_model(name))


def _shape(text):
    name, _, extents = text.partition('=')
    try:
        return name, [int(extent) for extent in extents.split(',')]
    except ValueError:
        raise argparse.ArgumentTypeError(f'{text!r} is not NAME=1,2,3') from None


def _show(path, findings, what):
    stops = sum(finding.stops for finding in findings)
    differs = len(findings) - stops
    verdict = f'{stops} to change' if stops else f'{what} here'
    print(f'{path}: {verdict}' + (f', {differs} to know of' if differs else ''))
    for finding in findings:
        print(f'    {finding}')
    return stops > 0


def _check_model(path, options):
    findings, program = models.check_model(path)
    stopped = _show(path, findings, 'every op is')
    if program is None:
        return None
    if options.batch and not stopped:
        try:
            sizes = models.memory(program, options.batch, dict(options.shape))
        except (RuntimeError, ValueError) as error:
            print(f'    memory: {error}')
            return True
        shown = ', '.join(f'{key} {sizes[key] / 2**20:.1f} MiB' for key in ('total', 'parameters', 'arena', 'feeds'))
        print(f'    memory at batch {options.batch}: {shown}{"" if sizes["exact"] else " (at least)"}')
    return stopped


def main(arguments=None):
    parser = argparse.ArgumentParser('python -m paddle.doctor', description=__doc__)
    parser.add_argument('path', nargs='+', help='a script, a model file (__model__, *.pdmodel), or a folder')
    parser.add_argument('--batch', type=int, help='also prints the memory that a model needs at this batch size')
    parser.add_argument('--shape', type=_shape, action='append', default=[], metavar='NAME=1,2,3',
                        help='what a variable of a model is fed, where more than the batch size is unknown')
    options = parser.parse_args(arguments)
    if options.batch is not None and options.batch < 1:
        parser.error(f'--batch is {options.batch}; it must be positive')
    stopped = unreadable = False
    for path in _paths(options.path):
        if models.is_model(path):
            result = _check_model(path, options)
        else:
            try:
                with open(path, encoding='utf-8') as file:
                    result = _show(path, check_script(file.read(), path), 'every name is')
            except (OSError, UnicodeDecodeError) as error:
                print(f'{path}: cannot be read: {error}')
                result = None
        unreadable = unreadable or result is None
        stopped = stopped or bool(result)
    return 2 if unreadable else 1 if stopped else 0


if __name__ == '__main__':
    sys.exit(main())
