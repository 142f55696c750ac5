"""python -m paddle.view SCRIPT_OR_MODEL [-o page.html] [-- ARGUMENTS]: writes the page of a program.

A script is run as `python SCRIPT ARGUMENTS` runs it; shown is the last program that it trained, with its last
ten steps. Reports (*.json, written with --data) can be given instead: several are processes of one job.
"""
import argparse
import os
import sys

from . import pages, reports, subjects


def _parser():
    parser = argparse.ArgumentParser('python -m paddle.view', description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('path', nargs='+', help='a script with its arguments, a saved model, or reports (*.json)')
    parser.add_argument('-o', '--output', help='the page; page.html if nothing else is asked for')
    parser.add_argument('--data', help='writes the report itself, as JSON')
    parser.add_argument('--trace', help='writes the timed steps as a Chrome trace, for Perfetto')
    parser.add_argument('--against', action='append', default=[], help='a report of an earlier run to compare with')
    parser.add_argument('--feed', help='an .npz file with what a model is fed, by name')
    parser.add_argument('--name', default='', help='what this process is called among those of a job')
    parser.add_argument('--stop-after', type=int, metavar='N', help='end the script after N training steps')
    return parser


def _text(path):
    with open(path, encoding='utf-8') as file:
        text = file.read()
    if not text.startswith('{"format":"trireme report 1"'):
        raise SystemExit(f'{path} is no report of this version: write it with --data')
    return text


def main(arguments=None):
    given = list(sys.argv[1:] if arguments is None else arguments)
    own, rest = (given[:given.index('--')], given[given.index('--') + 1:]) if '--' in given else (given, [])
    options = _parser().parse_args(own)
    path, status = options.path[0], 0
    if all(each.endswith('.json') for each in options.path):
        texts = [_text(each) for each in options.path]
    else:
        if not os.path.exists(path):
            raise SystemExit(f'there is no {path}')
        feed = subjects.feed_from_file(options.feed) if options.feed else None
        call, status = subjects.call_of(path, options.path[1:] + rest, feed, stop_after=options.stop_after,
                                        name=options.name)
        texts = [reports.report_of_call(call, options.name)]
    if options.data:
        with open(options.data, 'w', encoding='utf-8') as file:
            file.write(texts[0])
    if options.trace:
        pages.write_trace(options.trace, texts)
    output = options.output or (None if options.data or options.trace else 'page.html')
    if output:
        pages.write_page(output, texts, title=os.path.basename(path), against=[_text(each) for each in options.against])
        print(f'view: {output}', file=sys.stderr)
    return status


if __name__ == '__main__':
    sys.exit(main())
