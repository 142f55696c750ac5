"""paddle.dataset.voc2012: not built yet; its names say so when they are used."""
from .common import not_read_here

__getattr__ = not_read_here('voc2012')
