"""WMT 16, English and German descriptions of pictures (Multi30K): pairs of sentences."""
import collections
import os
import tarfile

from . import common

__all__ = ['train', 'test', 'validation', 'fetch', 'get_dict']

DATA_URL = 'http://paddlemodels.bj.bcebos.com/wmt/wmt16.tar.gz'
DATA_MD5 = '0c38be43600334966403524a40dcd81e'

TOTAL_EN_WORDS = 11250
TOTAL_DE_WORDS = 19220

START_MARK = '<s>'
END_MARK = '<e>'
UNK_MARK = '<unk>'

_TOTAL = {'en': TOTAL_EN_WORDS, 'de': TOTAL_DE_WORDS}


def _archive():
    return common.download(DATA_URL, 'wmt16', DATA_MD5, 'wmt16.tar.gz')


def _pairs(path, name):
    with tarfile.open(path) as archive:
        for line in common.member(archive, path, name):
            pair = line.decode('utf-8').strip().split('\t')
            if len(pair) == 2:
                yield pair


def _dict_path(lang, size):
    return os.path.join(common.DATA_HOME, 'wmt16', f'{lang}_{size}.dict')


def _words(lang, size, path):
    """The dictionary's words in order, from the cache; counted and kept there at the first use."""
    kept = _dict_path(lang, size)
    if os.path.isfile(kept):
        with open(kept, encoding='utf-8') as file:
            words = file.read().split('\n')[:-1]
        if len(words) == size:
            return words
    counts = collections.Counter()
    for pair in _pairs(path, 'wmt16/train'):
        counts.update(pair[lang == 'de'].split())
    words = [START_MARK, END_MARK, UNK_MARK]
    words += [word for word, _ in sorted(counts.items(), key=lambda p: -p[1])[:max(0, size - 3)]]
    part = f'{kept}.{os.getpid()}.part'
    with open(part, 'w', encoding='utf-8') as file:
        file.writelines(word + '\n' for word in words)
    os.replace(part, kept)
    return words


def reader_creator(tar_file, file_name, src_dict_size, trg_dict_size, src_lang):
    def reader():
        trg_lang = 'de' if src_lang == 'en' else 'en'
        source = {w: i for i, w in enumerate(_words(src_lang, src_dict_size, tar_file))}
        target = {w: i for i, w in enumerate(_words(trg_lang, trg_dict_size, tar_file))}
        start, end, unknown = (source[mark] for mark in (START_MARK, END_MARK, UNK_MARK))
        for pair in _pairs(tar_file, file_name):
            texts = pair if src_lang == 'en' else pair[::-1]
            from_ids = [source.get(w, unknown) for w in texts[0].split()]
            to_ids = [target.get(w, unknown) for w in texts[1].split()]
            yield [start, *from_ids, end], [start, *to_ids], [*to_ids, end]
    return reader


def _reader(file_name, src_dict_size, trg_dict_size, src_lang):
    if src_lang not in _TOTAL:
        raise ValueError(f"src_lang is {src_lang!r}: it must be 'en' (English) or 'de' (German)")
    trg_lang = 'de' if src_lang == 'en' else 'en'
    return reader_creator(_archive(), file_name, min(src_dict_size, _TOTAL[src_lang]),
                          min(trg_dict_size, _TOTAL[trg_lang]), src_lang)


def train(src_dict_size, trg_dict_size, src_lang='en'):
    """Samples: source with <s> and <e>, target after <s>, target before <e>."""
    return _reader('wmt16/train', src_dict_size, trg_dict_size, src_lang)


def test(src_dict_size, trg_dict_size, src_lang='en'):
    return _reader('wmt16/test', src_dict_size, trg_dict_size, src_lang)


def validation(src_dict_size, trg_dict_size, src_lang='en'):
    return _reader('wmt16/val', src_dict_size, trg_dict_size, src_lang)


def get_dict(lang, dict_size, reverse=False):
    """From words to numbers, or with reverse=True from numbers to words."""
    size = min(dict_size, _TOTAL[lang])
    words = _words(lang, size, None if os.path.isfile(_dict_path(lang, size)) else _archive())
    return dict(enumerate(words)) if reverse else {word: i for i, word in enumerate(words)}


def fetch():
    _archive()
