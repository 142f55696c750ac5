"""Ops of a program's bytes as they stand there: attributes that a reader leaves out are among them."""
import struct


def _varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


def _fields(data):
    """(number, value) of a message: bytes, or a whole number as it is written."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        if key & 7 == 0:
            value, at = _varint(data, at)
        else:
            size, at = (4, at) if key & 7 == 5 else (8, at) if key & 7 == 1 else _varint(data, at)
            value, at = bytes(data[at:at + size]), at + size
        yield key >> 3, value


def _signed(value):
    return value - (1 << 64) if value >= 1 << 63 else value


def _packed(kind, value):
    """Elements of a list: one by one in the file, or all together."""
    if not isinstance(value, bytes):
        return [_signed(value)]
    if kind == 'floats':
        return list(struct.unpack('<%df' % (len(value) // 4), value))
    found, at = [], 0
    while at < len(value):
        one, at = _varint(value, at)
        found.append(_signed(one))
    return found


_ATTRIBUTES = {3: 'i', 4: 'f', 5: 's', 6: 'ints', 7: 'floats', 8: 'strings', 10: 'b', 11: 'bools', 12: 'block',
               13: 'l', 14: 'blocks', 15: 'longs'}


def _attribute(data):
    name, found = None, []
    for number, value in _fields(data):
        kind = _ATTRIBUTES.get(number)
        if number == 1:
            name = value.decode()
        elif kind == 'f':
            found.append(struct.unpack('<f', value)[0])
        elif kind in ('s', 'strings'):
            found.append(value.decode())
        elif kind:
            found.extend(_packed(kind, value))
    return name, found


def _slot(data):
    name, variables = None, []
    for number, value in _fields(data):
        if number == 1:
            name = value.decode()
        else:
            variables.append(value.decode())
    return name, variables


def ops(data):
    """[(type, inputs, outputs, attributes)] of all blocks; slots that are empty are left out."""
    found = []
    for block in (value for number, value in _fields(data) if number == 1):
        for message in (value for number, value in _fields(block) if number == 4):
            op = ['', {}, {}, {}]
            for number, value in _fields(message):
                if number == 3:
                    op[0] = value.decode()
                elif number in (1, 2):
                    slot, variables = _slot(value)
                    if variables:
                        op[number][slot] = variables
                elif number == 4:
                    name, held = _attribute(value)
                    op[3][name] = held
            found.append(tuple(op))
    return found
