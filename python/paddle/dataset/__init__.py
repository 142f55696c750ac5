"""Data sets as readers. Files are taken from ~/.cache/paddle/dataset/<name>, and checked."""
from . import cifar, common, conll05, flowers, image, imdb, imikolov, mnist, movielens, mq2007, sentiment
from . import uci_housing, voc2012, wmt14, wmt16

__all__ = ['mnist', 'imikolov', 'imdb', 'cifar', 'movielens', 'conll05', 'uci_housing', 'sentiment',
           'wmt14', 'wmt16', 'mq2007', 'flowers', 'voc2012', 'image']
