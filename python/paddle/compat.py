"""Text, bytes, rounding and division as programs spelt them when they ran under Python 2 as well."""
import decimal
import math

__all__ = ['long_type', 'int_type', 'to_text', 'to_bytes', 'round', 'floor_division',
           'get_exception_message']

int_type = long_type = int


def to_text(obj, encoding='utf-8', inplace=False):
    """bytes as str, in lists, sets and dictionaries too; other things stay as they are."""
    return _converted(obj, inplace, lambda item: item.decode(encoding) if isinstance(item, bytes) else item)


def to_bytes(obj, encoding='utf-8', inplace=False):
    """str as bytes, in lists and sets too; other things stay as they are."""
    return _converted(obj, inplace, lambda item: item.encode(encoding) if isinstance(item, str) else item)


def _converted(obj, inplace, convert):
    if isinstance(obj, list):
        items = [convert(item) for item in obj]
        if not inplace:
            return items
        obj[:] = items
        return obj
    if isinstance(obj, (set, dict)):
        items = type(obj)(map(convert, obj)) if isinstance(obj, set) \
            else {convert(key): convert(value) for key, value in obj.items()}
        if not inplace:
            return items
        obj.clear()
        obj.update(items)
        return obj
    return convert(obj)


def round(x, d=0):
    """Half away from zero, as Python 2 rounded; of floats a float."""
    if not math.isfinite(x):
        return x
    step = decimal.Decimal(1).scaleb(-d)
    exact = decimal.Decimal(x).quantize(step, rounding=decimal.ROUND_HALF_UP)
    return math.copysign(float(exact), x)


def floor_division(x, y):
    return x // y


def get_exception_message(exc):
    assert exc is not None, 'an exception is needed'
    return str(exc)
