"""Film reviews of NLTK's movie_reviews corpus as lists of word numbers; 0 is bad, 1 is good."""
import collections
import itertools
import os
import re
import zipfile

from . import common

__all__ = ['train', 'test', 'get_word_dict']

NUM_TRAINING_INSTANCES = 1600
NUM_TOTAL_INSTANCES = 2000

URL = 'https://corpora.bj.bcebos.com/movie_reviews%2Fmovie_reviews.zip'
MD5 = '155de2b77c6834dd8eea7cbe88e93acb'


def _contents():
    """File name -> text, from the corpus NLTK unpacked or from the archive."""
    folder = os.path.join(common.DATA_HOME, 'corpora', 'movie_reviews')
    texts = {}
    if os.path.isdir(folder):
        for kind in ('neg', 'pos'):
            for name in os.listdir(os.path.join(folder, kind)):
                with open(os.path.join(folder, kind, name), encoding='utf-8') as file:
                    texts[f'{kind}/{name}'] = file.read()
        return texts
    path = common.download(URL, 'corpora', MD5)
    with zipfile.ZipFile(path) as package:
        for name in package.namelist():
            found = re.fullmatch(r'movie_reviews/((?:neg|pos)/[^/]+\.txt)', name)
            if found:
                texts[found.group(1)] = package.read(name).decode('utf-8')
    if not texts:
        raise common.unreadable(path, 'it has no movie_reviews/neg/*.txt')
    return texts


def _words():
    """File name -> words and runs of punctuation, in the order of the names."""
    return {name: re.findall(r'\w+|[^\w\s]+', text) for name, text in sorted(_contents().items())}


def _ranked(words):
    counts = collections.Counter(itertools.chain.from_iterable(words.values()))
    return [(word, i) for i, (word, _) in enumerate(sorted(counts.items(), key=lambda p: -p[1]))]


def get_word_dict():
    """[(word, number), ...], the most frequent first."""
    return _ranked(_words())


def load_sentiment_data():
    """All samples, bad and good ones in turn."""
    words = _words()
    ids = dict(_ranked(words))
    bad, good = ([name for name in words if name.startswith(kind)] for kind in ('neg', 'pos'))
    return [([ids[word.lower()] for word in words[name]], int(name.startswith('pos')))
            for name in itertools.chain.from_iterable(zip(bad, good))]


def reader_creator(data):
    yield from data


def train():
    """An iterator over the first 1600 samples."""
    return reader_creator(load_sentiment_data()[:NUM_TRAINING_INSTANCES])


def test():
    """An iterator over the samples after the first 1600."""
    return reader_creator(load_sentiment_data()[NUM_TRAINING_INSTANCES:])


def fetch():
    _contents()
