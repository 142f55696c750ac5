"""Losses whose arguments are not their op's."""
from .apply import one

__all__ = ['huber_loss', 'bpr_loss', 'cross_entropy2']


def huber_loss(input, label, delta):
    return one('huber_loss', {'X': input, 'Y': label}, {'delta': delta})


def bpr_loss(input, label, name=None):
    return one('bpr_loss', {'X': input, 'Label': label}, name=name, out='Y')


def cross_entropy2(input, label, ignore_index=-100):
    return one('cross_entropy2', {'X': input, 'Label': label}, {'ignore_index': ignore_index},
               out='Y')
