"""IMDB: reviews of films as lists of word numbers; 0 for those that liked it, 1 for the others."""
import collections
import re
import string
import tarfile

from . import common

__all__ = ['build_dict', 'train', 'test']

URL = 'https://dataset.bj.bcebos.com/imdb%2FaclImdb_v1.tar.gz'
MD5 = '7c2ac02c03563afcf9b574c7e56c153a'

_PUNCTUATION = string.punctuation.encode('ascii')


def tokenize(pattern):
    """The words, as lower-case bytes, of every file of the archive whose name matches."""
    with tarfile.open(common.download(URL, 'imdb', MD5)) as archive:
        for member in archive:  # in the archive's order: looking up names would read it many times
            if pattern.match(member.name):
                text = archive.extractfile(member).read().rstrip(b'\n\r')
                yield text.translate(None, _PUNCTUATION).lower().split()


def build_dict(pattern, cutoff):
    """Numbers for the words that occur more than cutoff times, the most frequent first."""
    counts = collections.Counter()
    for words in tokenize(pattern):
        counts.update(words)
    kept = sorted(((word, n) for word, n in counts.items() if n > cutoff), key=lambda p: (-p[1], p[0]))
    numbers = {word: i for i, (word, _) in enumerate(kept)}
    numbers['<unk>'] = len(numbers)
    return numbers


def _reader(part, word_idx):
    unknown = word_idx['<unk>']

    def reader():
        for label, kind in enumerate(('pos', 'neg')):
            for words in tokenize(re.compile(rf'aclImdb/{part}/{kind}/.*\.txt$')):
                yield [word_idx.get(word, unknown) for word in words], label
    return reader


def train(word_idx):
    """Samples (word numbers, label) of the training set."""
    return _reader('train', word_idx)


def test(word_idx):
    """Samples (word numbers, label) of the test set."""
    return _reader('test', word_idx)


def word_dict():
    """The words that occur more than 150 times in all reviews."""
    return build_dict(re.compile(r'aclImdb/(train|test)/(pos|neg)/.*\.txt$'), 150)


def fetch():
    common.download(URL, 'imdb', MD5)
