"""python -m paddle.certify SCRIPT_OR_MODEL [--feed data.npz] [--record record.npz]: is it the same in every way?

Ends with 0 where everything that could be compared is the same, with 1 where something differs, with 2 where
nothing could be compared.
"""
import argparse
import json
import os
import sys

from ..fluid import core
from ..fluid.framework import Program
from ..viewer import subjects
from . import comparisons, page
from .records import Record


def _parser():
    parser = argparse.ArgumentParser('python -m paddle.certify', description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('path', nargs='*', help='a script with its arguments, or a saved model; a record alone brings its program')
    parser.add_argument('-o', '--output', help='the page; beside it the same as JSON')
    parser.add_argument('--feed', help='an .npz file with what a model is fed, by name')
    parser.add_argument('--record', help='what record.py wrote in the old environment')
    parser.add_argument('--stop-after', type=int, metavar='N', help='end the script after N training steps')
    return parser


def _subject(options, arguments, record):
    """(program, feed, scope, fetches)"""
    feed = subjects.feed_from_file(options.feed) if options.feed else None
    if not options.path:
        scope = core.Scope()
        for name, value in record.before.items():
            scope.var(name).get_tensor().set(value, core.CPUPlace())
        return Program.parse_from_string(record.program), feed or record.feeds[0], scope, record.fetches
    call, _ = subjects.call_of(options.path[0], arguments, feed, times=False, stop_after=options.stop_after)
    given = call.feed[0] if isinstance(call.feed, (list, tuple)) else call.feed
    return call.program, feed or given, call.scope, call.names


def main(arguments=None):
    given = list(sys.argv[1:] if arguments is None else arguments)
    own, rest = (given[:given.index('--')], given[given.index('--') + 1:]) if '--' in given else (given, [])
    options = _parser().parse_args(own)
    if not options.path and not options.record:
        _parser().error('give a script, a model or a --record')
    record = Record(options.record) if options.record else None
    program, feed, scope, fetches = _subject(options, options.path[1:] + rest, record)
    of = os.path.basename(os.path.normpath(options.path[0] if options.path else options.record))
    certificate = comparisons.certify(program, feed, scope, fetches, record, of)
    output = options.output or page.default_path(of)
    page.write_page(output, certificate)
    with open(os.path.splitext(output)[0] + '.json', 'w') as file:
        json.dump(certificate, file, indent=1)
    print(page.text_of(certificate))
    print(f'certificate: {output}', file=sys.stderr)
    return {'the same': 0, 'differs': 1, 'not run': 2}[certificate['verdict']]


if __name__ == '__main__':
    sys.exit(main())
