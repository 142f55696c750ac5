"""The Penn Treebank sentences of imikolov's simple examples, as n-grams or as sequences."""
import collections
import tarfile

from . import common

__all__ = ['train', 'test', 'build_dict']

URL = 'https://dataset.bj.bcebos.com/imikolov%2Fsimple-examples.tgz'
MD5 = '30177ea32e27c525793142b6bf2c8e2d'

_TRAIN, _VALID = 'simple-examples/data/ptb.train.txt', 'simple-examples/data/ptb.valid.txt'


class DataType:
    NGRAM = 1
    SEQ = 2


def _sentences(name):
    path = common.download(URL, 'imikolov', MD5)
    with tarfile.open(path) as archive:
        for line in common.member(archive, path, name):
            yield line.decode('utf-8').split()


def build_dict(min_word_freq=50):
    """Numbers for the words that occur more often than this, the most frequent first."""
    counts = collections.Counter()
    for name in (_TRAIN, _VALID):
        for words in _sentences(name):
            counts.update(words)
            counts.update(('<s>', '<e>'))
    counts.pop('<unk>', None)
    kept = sorted(((word, n) for word, n in counts.items() if n > min_word_freq),
                  key=lambda pair: (-pair[1], pair[0]))
    numbers = {word: i for i, (word, _) in enumerate(kept)}
    numbers['<unk>'] = len(numbers)
    return numbers


def reader_creator(filename, word_idx, n, data_type):
    unknown = word_idx['<unk>']

    def reader():
        for words in _sentences(filename):
            if data_type == DataType.NGRAM:
                if n <= 0:
                    raise ValueError(f'n is {n}; n-grams have at least one word')
                ids = [word_idx.get(word, unknown) for word in ['<s>', *words, '<e>']]
                for end in range(n, len(ids) + 1):
                    yield tuple(ids[end - n:end])
            elif data_type == DataType.SEQ:
                ids = [word_idx.get(word, unknown) for word in words]
                source, target = [word_idx['<s>'], *ids], [*ids, word_idx['<e>']]
                if n <= 0 or len(source) <= n:
                    yield source, target
            else:
                raise ValueError(f'data_type is {data_type}; use DataType.NGRAM or DataType.SEQ')
    return reader


def train(word_idx, n, data_type=DataType.NGRAM):
    return reader_creator(_TRAIN, word_idx, n, data_type)


def test(word_idx, n, data_type=DataType.NGRAM):
    return reader_creator(_VALID, word_idx, n, data_type)


def fetch():
    common.download(URL, 'imikolov', MD5)
