"""Data for the examples: real where Debian's scikit-learn ships it, generated where it does not.

Every function returns a reader, as the programs of the book expect: a function without arguments
that yields one sample at a time.
"""
import numpy as np


def diabetes(train=True):
    """442 patients: 10 measurements (scaled to unit deviation) and how the illness went on."""
    from sklearn.datasets import load_diabetes
    data = load_diabetes()
    x = (data.data / data.data.std(axis=0)).astype('float32')
    y = ((data.target - data.target.mean()) / data.target.std()).astype('float32')
    order = np.random.RandomState(0).permutation(len(x))
    part = order[:354] if train else order[354:]

    def reader():
        for i in part:
            yield x[i], y[i:i + 1]

    return reader


def digits(train=True):
    """1,797 handwritten digits, 8 x 8 pixels from -1 to 1, and which digit it is."""
    from sklearn.datasets import load_digits
    data = load_digits()
    images = (data.images / 8.0 - 1.0).astype('float32').reshape(-1, 64)
    labels = data.target.astype('int64')
    order = np.random.RandomState(0).permutation(len(images))
    part = order[:1437] if train else order[1437:]

    def reader():
        for i in part:
            yield images[i], int(labels[i])

    return reader


NOUNS = 'ship captain rower harbour wind sea oar sail island storm'.split()
ADJECTIVES = 'old swift calm bright heavy narrow'.split()
VERBS = 'sees leaves follows fears loves reaches'.split()
PLACES = 'at dawn|in the night|before the storm|near the island'.split('|')


def sentences(count, seed):
    """Sentences of a small grammar: what a word is follows from the four before it."""
    random = np.random.RandomState(seed)
    pick = lambda words: words[random.randint(len(words))]
    for _ in range(count):
        subject = ['the', pick(ADJECTIVES), pick(NOUNS)]
        # A noun's verbs and objects are its neighbours in the list: something to learn.
        noun = NOUNS.index(subject[-1])
        verb = VERBS[(noun + random.randint(2)) % len(VERBS)]
        thing = NOUNS[(noun + 1 + random.randint(2)) % len(NOUNS)]
        yield subject + [verb, 'the', thing] + pick(PLACES).split()


def word_dict():
    words = sorted({w for s in sentences(2000, seed=1) for w in s})
    return {word: i for i, word in enumerate(words + ['<s>', '<e>', '<unk>'])}


def ngrams(dictionary, n, train=True):
    """Every run of n words of the sentences, as numbers."""
    def reader():
        for sentence in sentences(600 if train else 100, seed=2 if train else 3):
            ids = [dictionary.get(w, dictionary['<unk>']) for w in ['<s>'] + sentence + ['<e>']]
            for i in range(n, len(ids) + 1):
                yield tuple(ids[i - n:i])

    return reader


GOOD = 'fine warm clever moving bright lively honest charming'.split()
BAD = 'dull cold clumsy flat dark tired false tedious'.split()
PLAIN = 'the film a story its actors music this scene plot with and of very camera ending'.split()


def review_dict():
    return {word: i for i, word in enumerate(GOOD + BAD + PLAIN + ['not'])}


def reviews(dictionary, train=True):
    """Reviews of 4 to 20 words: 1 when most opinions are good. 'not' turns the next one round."""
    def reader():
        random = np.random.RandomState(5 if train else 6)
        for _ in range(1200 if train else 300):
            label = random.randint(2)
            words, score = [], 0
            for _ in range(random.randint(4, 14)):
                if random.rand() < 0.5:
                    words.append(PLAIN[random.randint(len(PLAIN))])
                    continue
                good = random.rand() < (0.8 if label else 0.2)
                turned = random.rand() < 0.2
                opinion = GOOD if good != turned else BAD
                words += (['not'] if turned else []) + [opinion[random.randint(len(opinion))]]
                score += 1 if good else -1
            if score == 0:
                words.append((GOOD if label else BAD)[0])
            yield [dictionary[w] for w in words], int(score > 0 or (score == 0 and label == 1))

    return reader
