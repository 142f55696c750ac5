"""Reads what record.py wrote in the old environment."""
import json

import numpy

from ..fluid import core


class Record:
    def __init__(self, path):
        with numpy.load(path, allow_pickle=False) as held:
            if 'meta' not in held.files:
                raise SystemExit(f'{path} is no record: it is made by paddle/certify/record.py in the old environment')
            meta = json.loads(held['meta'].tobytes().decode())
            arrays = {name: held[name] for name in held.files}
        self.engine, self.fetches = meta['engine'], meta['fetches']
        self.program = arrays['program'].tobytes()

        def of(kind):
            return {name[len(kind) + 1:]: value for name, value in arrays.items() if name.startswith(kind + '/')}
        self.before, self.after, self.results = of('before'), of('after'), of('result')
        self.feeds = [{name: _with_lod(value, meta['lod'].get(f'feed{i}/{name}')) for name, value in of(f'feed{i}').items()}
                      for i in range(len(meta['feeds']))]


def _with_lod(array, lod):
    if not lod:
        return array
    tensor = core.LoDTensor()
    tensor.set(array, core.CPUPlace())
    tensor.set_lod(lod)
    return tensor
