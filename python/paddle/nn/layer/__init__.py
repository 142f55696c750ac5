"""Layers of paddle.nn, by subject."""
from . import (activation, common, container, conv, layers, loss, norm, pooling, rnn, transformer,  # noqa: F401
               vision)
