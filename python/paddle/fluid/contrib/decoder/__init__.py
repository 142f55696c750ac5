"""fluid.contrib.decoder: a recurrent cell that trains as a DynamicRNN and decodes by beam search."""
from . import beam_search_decoder
from .beam_search_decoder import *

__all__ = beam_search_decoder.__all__
