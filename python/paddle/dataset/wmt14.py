"""paddle.dataset.wmt14: not built yet; its names say so when they are used."""
from .common import not_read_here

__getattr__ = not_read_here('wmt14')
