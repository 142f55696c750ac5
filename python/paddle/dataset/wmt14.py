"""WMT 14, English to French, shrunk: pairs of sentences as word numbers."""
import tarfile

from . import common

__all__ = ['train', 'test', 'get_dict']

URL_TRAIN = 'http://paddlemodels.bj.bcebos.com/wmt/wmt14.tgz'
MD5_TRAIN = '0791583d57d5beb693b9414c5b36798c'
URL_MODEL = 'http://paddlemodels.bj.bcebos.com/wmt%2Fwmt14.tgz'
MD5_MODEL = '0cb4a5366189b6acba876491c8724fa3'

START = '<s>'
END = '<e>'
UNK = '<unk>'
UNK_IDX = 2

_LONGEST = 80


def _lines(path, ending):
    with tarfile.open(path) as archive:
        names = [name for name in archive.getnames() if name.endswith(ending)]
        if not names:
            raise common.unreadable(path, f'it has no {ending}')
        for name in names:
            for line in archive.extractfile(name):
                yield line.decode('utf-8').strip()


def _dictionary(path, ending, size):
    return {word: i for i, word in zip(range(size), _lines(path, ending))}


def _dictionaries(path, size):
    return _dictionary(path, 'src.dict', size), _dictionary(path, 'trg.dict', size)


def reader_creator(tar_file, file_name, dict_size):
    def reader():
        source, target = _dictionaries(tar_file, dict_size)
        for line in _lines(tar_file, file_name):
            pair = line.split('\t')
            if len(pair) != 2:
                continue
            from_ids = [source.get(w, UNK_IDX) for w in [START, *pair[0].split(), END]]
            to_ids = [target.get(w, UNK_IDX) for w in pair[1].split()]
            if max(len(from_ids), len(to_ids)) <= _LONGEST:
                yield from_ids, [target[START], *to_ids], [*to_ids, target[END]]
    return reader


def _archive():
    return common.download(URL_TRAIN, 'wmt14', MD5_TRAIN)


def train(dict_size):
    """Samples: source with <s> and <e>, target after <s>, target before <e>."""
    return reader_creator(_archive(), 'train/train', dict_size)


def test(dict_size):
    return reader_creator(_archive(), 'test/test', dict_size)


def gen(dict_size):
    return reader_creator(_archive(), 'gen/gen', dict_size)


def get_dict(dict_size, reverse=True):
    """The two dictionaries: from numbers to words, or with reverse=False from words to numbers."""
    both = _dictionaries(_archive(), dict_size)
    return tuple({i: word for word, i in d.items()} for d in both) if reverse else both


def fetch():
    _archive()
    common.download(URL_MODEL, 'wmt14', MD5_MODEL)
