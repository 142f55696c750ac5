"""Records of a group of cases in one compressed .npz: an index in JSON, and all numbers of a type in a row.

One entry per array would cost more in headers than the arrays take.
"""
import json

import numpy as np


def save(path, records, made_with):
    """records: case -> (arrays, description); an array may come with its LoD."""
    rows, index = {}, {'made_with': made_with, 'cases': {}}
    for case in sorted(records):
        arrays, about = records[case]
        listed = []
        for key in sorted(arrays):
            value = arrays[key]
            value, lod = value if isinstance(value, tuple) else (value, [])
            value = np.ascontiguousarray(value).reshape(np.shape(value))
            row = rows.setdefault(str(value.dtype), [])
            listed.append([key, str(value.dtype), list(value.shape), lod])
            row.append(value.reshape(-1))
        index['cases'][case] = {'arrays': listed, 'about': about}
    text = json.dumps(index, sort_keys=True, separators=(',', ':'))
    entries = {dtype: np.concatenate(row) for dtype, row in rows.items()}
    np.savez_compressed(path, index=np.frombuffer(text.encode(), 'uint8'),
                        **{'data_' + dtype: row for dtype, row in entries.items()})


def load(path):
    """case -> (arrays, description); every array is (values, LoD)."""
    with np.load(path) as stored:
        index = json.loads(stored['index'].tobytes().decode())
        rows = {name[5:]: stored[name] for name in stored.files if name.startswith('data_')}
    at = dict.fromkeys(rows, 0)
    records = {}
    for case in sorted(index['cases']):
        entry, arrays = index['cases'][case], {}
        for key, dtype, shape, lod in entry['arrays']:
            count = int(np.prod(shape)) if shape else 1
            start = at[dtype]
            at[dtype] += count
            arrays[str(key)] = (rows[dtype][start:start + count].reshape(shape), lod)
        records[str(case)] = (arrays, entry['about'])
    return records
