"""DataFeedDesc: the text that describes lines of slots, read from a file, changed and printed again."""
import os
import re

__all__ = ['DataFeedDesc']

_TOKEN = re.compile(r'\s*(?:#[^\n]*\n\s*)*([A-Za-z_]\w*|[{}:]|"(?:[^"\\]|\\.)*"|-?[\d.]+)')
# How a value is written, one of them, and what it is read as.
_KINDS = {bool: ('true|false', 'true', lambda value: value == 'true'), int: (r'-?\d+', '1', int),
          str: ('"(?s:.*)"', '"text"', lambda value: value[1:-1])}
_SLOT = {'name': str, 'type': str, 'is_dense': bool, 'is_used': bool, 'shape': [int]}
_FEED = {'name': str, 'batch_size': int, 'multi_slot_desc': {'slots': [_SLOT]}, 'pipe_command': str, 'thread_num': int,
         'rank_offset': str, 'pv_batch_size': int}


class _Text:
    """Fields of a text as names and values, in the order of `fields`; a list is what may stand there several times."""

    def __init__(self, text, path):
        self._path, self._text, self._at = path, text.strip(), 0

    def _wrong(self, problem):
        line = self._text.count('\n', 0, self._at) + 1
        return ValueError(f'{self._path}, line {line}: {problem}')

    def _next(self):
        found = _TOKEN.match(self._text, self._at)
        if found is None:
            raise self._wrong('a name, a value or a brace is due' if self._at < len(self._text) else 'it ends too early')
        self._at = found.end()
        return found[1]

    def message(self, fields, inner=False):
        found = {}
        while self._at < len(self._text):
            name = self._next()
            if inner and name == '}':
                return found
            if name not in fields:
                raise self._wrong(f'{name} is no field here; fields are {", ".join(fields)}')
            several = isinstance(fields[name], list)
            value = self._value(name, fields[name][0] if several else fields[name])
            if several:
                found.setdefault(name, []).append(value)
            else:
                found[name] = value
        if inner:
            raise self._wrong('a brace is not closed')
        return found

    def _value(self, name, kind):
        token = self._next()
        if isinstance(kind, dict):
            opened = self._next() if token == ':' else token
            if opened != '{':
                raise self._wrong(f'{name} has fields of its own: write {name} {{ ... }}')
            return self.message(kind, inner=True)
        form, example, made = _KINDS[kind]
        value = self._next() if token == ':' else ''
        if not re.fullmatch(form, value):
            raise self._wrong(f'{name} takes a {kind.__name__}: write {name}: {example}')
        return made(value)


def _lines(message, fields, indent=''):
    for name in fields:
        values = message.get(name, []) if isinstance(fields[name], list) else [message[name]] if name in message else []
        for value in values:
            if isinstance(value, dict):
                inner = fields[name][0] if isinstance(fields[name], list) else fields[name]
                yield f'{indent}{name} {{'
                yield from _lines(value, inner, indent + '  ')
                yield f'{indent}}}'
            else:
                text = str(value).lower() if isinstance(value, bool) else f'"{value}"' if isinstance(value, str) else value
                yield f'{indent}{name}: {text}'


class DataFeedDesc:
    """What the lines of a data set hold. fluid.DatasetFactory makes its own of variables; this one is for the text."""

    def __init__(self, proto_file):
        with open(os.fspath(proto_file)) as file:  # a number would be an open file of the process
            self._feed = _Text(file.read(), proto_file).message(_FEED)
        self._feed['pipe_command'] = 'cat'
        slots = self._feed.get('multi_slot_desc', {}).get('slots', [])
        if not all('name' in slot and 'type' in slot for slot in slots):
            raise ValueError(f'{proto_file}: every slot has a name and a type')
        self._slots = {slot['name']: slot for slot in slots}
        for slot in slots:
            slot.setdefault('is_dense', False)
            slot.setdefault('is_used', False)

    def set_batch_size(self, batch_size):
        self._feed['batch_size'] = int(batch_size)

    def set_dense_slots(self, dense_slots_name):
        """Slots with as many values in every line."""
        self._mark(dense_slots_name, 'is_dense', 'set_dense_slots')

    def set_use_slots(self, use_slots_name):
        """Slots that a program reads; the others are passed over."""
        self._mark(use_slots_name, 'is_used', 'set_use_slots')

    def _mark(self, names, what, method):
        if self._feed.get('name') != 'MultiSlotDataFeed':
            raise ValueError(f'{method} is for a MultiSlotDataFeed, and this is a {self._feed.get("name")}')
        for name in names:
            if name not in self._slots:
                raise KeyError(f'{name} is no slot; slots are {", ".join(self._slots)}')
            self._slots[name][what] = True

    def desc(self):
        """The text."""
        return '\n'.join(_lines(self._feed, _FEED)) + '\n'
