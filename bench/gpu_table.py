"""Prints the table of bench/gpu.sh: Trireme and PyTorch on one GPU, from the JSON lines of both.

gpu_table.py FOLDER: reads FOLDER/ours.jsonl and FOLDER/peers.jsonl.
"""

import json
import sys
from pathlib import Path


def lines(path):
    found = []
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            found.append(json.loads(line))
        except ValueError:
            print('not a measurement: %s' % line[:200], file=sys.stderr)
    return found


def main():
    folder = Path(sys.argv[1])
    ours = {}
    for one in lines(folder / 'ours.jsonl'):
        ours.setdefault((one['name'], one['precision']), {})[one['fed']] = one['ms']
    peers = {}
    for one in lines(folder / 'peers.jsonl'):
        best = peers.setdefault((one['name'], one['precision']), {})
        for mode, ms in one['ms'].items():
            mode += ' dense' if one['dense'] else ''
            best[mode] = min(ms, best.get(mode, ms))
    print('| training step | precision | Trireme, batch on the card | and from the host | '
          "PyTorch's best | ratio | PyTorch eager |")
    print('|---|---|---|---|---|---|---|')
    for key, own in ours.items():
        found = peers.get(key, {})
        best = min(found, key=found.get, default=None)
        there, host = own.get('card'), own.get('host')
        cells = [key[0], key[1], '%.3f' % there if there else '', '%.3f' % host if host else '']
        cells += ['%.3f %s' % (found[best], best) if best else '',
                  '%.2f' % (found[best] / there) if best and there else '',
                  '%.3f' % found['eager'] if 'eager' in found else '']
        print('| ' + ' | '.join(cells) + ' |')


if __name__ == '__main__':
    main()
