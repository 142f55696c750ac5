"""Data sets as readers. Files are taken from ~/.cache/paddle/dataset/<name>; none is downloaded."""
from . import cifar, common, imdb, imikolov, mnist, uci_housing
from . import conll05, flowers, movielens, sentiment, voc2012, wmt14, wmt16

__all__ = ['mnist', 'imikolov', 'imdb', 'cifar', 'movielens', 'conll05', 'uci_housing', 'sentiment',
           'wmt14', 'wmt16', 'flowers', 'voc2012']
