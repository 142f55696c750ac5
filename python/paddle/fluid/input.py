"""Layers whose ids need no trailing dimension of 1."""
from _trireme import embedding_v2 as embedding
from _trireme import one_hot_v2 as one_hot

__all__ = ['one_hot', 'embedding']
