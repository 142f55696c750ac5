"""Small generated sets in the formats of the real ones, where paddle.dataset looks for them.

Each function writes a set's files into a cache folder and tells paddle.dataset of the folder and of
the files' md5 sums. A program that leaves the call out reads the real files of ~/.cache/paddle/dataset.
"""
import gzip
import io
import os
import pickle
import tarfile
import zipfile

import numpy as np
import paddle

import datasets


def _put(home, folder, name, contents):
    """Writes a file into the cache folder; its md5 sum."""
    paddle.dataset.common.DATA_HOME = home
    path = os.path.join(home, folder, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, 'wb') as file:
        file.write(contents)
    return paddle.dataset.common.md5file(path)


def _tar(files):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode='w:gz') as archive:
        for name, contents in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(contents)
            archive.addfile(info, io.BytesIO(contents))
    return out.getvalue()


def _picture(random, label):
    """A shape of one of five kinds, reddish or bluish, anywhere on a dim noisy ground."""
    size, radius = 32, random.randint(6, 11)
    y, x = np.mgrid[:size, :size] - random.randint(radius, size - radius, 2)[:, None, None]
    inside = (abs(x) <= radius) & (abs(y) <= radius)
    kind, bluish = divmod(label, 2)
    shape = inside & [x * x + y * y <= radius * radius, inside, abs(abs(x) - abs(y)) <= 2, x % 4 < 2,
                      y % 4 < 2][kind]
    image = random.randint(0, 40, (3, size, size))
    image[2 if bluish else 0] += np.where(shape, 150, 0)
    return np.clip(image + np.where(shape, 40, 0), 0, 255).astype('uint8').reshape(-1)


def cifar10(home, train=1200, test=300):
    """cifar-10-python.tar.gz: five shapes in two colours."""
    files = {}
    for name, count, seed in (('data_batch_1', train, 1), ('test_batch', test, 2)):
        random = np.random.RandomState(seed)
        labels = [i % 10 for i in range(count)]
        batch = {b'data': np.stack([_picture(random, label) for label in labels]), b'labels': labels}
        files['cifar-10-batches-py/' + name] = pickle.dumps(batch, protocol=2)
    paddle.dataset.cifar.CIFAR10_MD5 = _put(home, 'cifar', 'cifar-10-python.tar.gz', _tar(files))


GENRES = 'Action Comedy Drama Horror Romance War'.split()


def movielens(home, users=120, movies=80, ratings=6000):
    """ml-1m.zip: what people like depends on the genre, on their age and on whether they are women."""
    random = np.random.RandomState(3)
    ages = paddle.dataset.movielens.age_table
    people = [(random.randint(2), random.randint(len(ages)), random.randint(21)) for _ in range(users)]
    films = [sorted(random.choice(len(GENRES), random.randint(1, 3), replace=False)) for _ in range(movies)]
    taste = random.uniform(-1.5, 1.5, (2, len(ages), len(GENRES)))
    quality = random.uniform(-0.7, 0.7, movies)
    titles = [f'{a.title()} {n.title()}' for a in datasets.ADJECTIVES for n in datasets.NOUNS]
    lines = []
    for _ in range(ratings):
        user, film = random.randint(users), random.randint(movies)
        woman, age, _ = people[user]
        score = 3 + quality[film] + taste[woman, age, films[film]].mean() + random.normal(0, 0.2)
        lines.append(f'{user + 1}::{film + 1}::{int(np.clip(round(score), 1, 5))}::978300760')
    out = io.BytesIO()
    with zipfile.ZipFile(out, 'w') as package:
        package.writestr('ml-1m/users.dat', ''.join(
            f"{i}::{'MF'[woman]}::{ages[age]}::{job}::00000\n" for i, (woman, age, job) in enumerate(people, 1)))
        package.writestr('ml-1m/movies.dat', ''.join(
            f"{i}::{titles[i % len(titles)]} ({1980 + i % 20})::{'|'.join(GENRES[g] for g in genres)}\n"
            for i, genres in enumerate(films, 1)))
        package.writestr('ml-1m/ratings.dat', '\n'.join(lines) + '\n')
    paddle.dataset.movielens.MD5 = _put(home, 'movielens', 'ml-1m.zip', out.getvalue())


def conll05(home, count=300):
    """conll05st-tests.tar.gz and its dictionaries: who (A0) does what (V) to whom (A1), and when.

    In a third of the sentences what is done comes first: the sail reaches by the old ship.
    """
    random = np.random.RandomState(4)
    words, props, known, verbs = [], [], {'<unk>': 0, 'bos': 1, 'eos': 2}, {}
    for sentence in datasets.sentences(count, seed=4):
        subject, verb, thing, place = sentence[:3], sentence[3], sentence[4:6], sentence[6:]
        chunks = [('A0', subject), ('V', [verb]), ('A1', thing), ('AM-TMP', place)]
        if random.randint(3) == 0:
            chunks = [('A1', thing), ('V', [verb]), (None, ['by']), ('A0', subject), ('AM-TMP', place)]
        if random.randint(3) == 0:  # the time comes first
            chunks = chunks[-1:] + chunks[:-1]
        for tag, chunk in chunks:
            for i, word in enumerate(chunk):
                mark = f'({tag}*' if tag and i == 0 else '*'
                mark += ')' if tag and i == len(chunk) - 1 else ''
                words.append(word)
                props.append(f"{verb if tag == 'V' else '-'} {mark}")
                known.setdefault(word, len(known))
        words.append('')
        props.append('')
        verbs.setdefault(verb, len(verbs))
    root = 'conll05st-release/test.wsj/'
    zipped = lambda lines: gzip.compress('\n'.join(lines).encode())
    tags = [kind + tag for tag in ('A0', 'A1', 'AM-TMP', 'V') for kind in ('B-', 'I-')] + ['O']
    conll05 = paddle.dataset.conll05
    conll05.DATA_MD5 = _put(home, 'conll05st', 'conll05st-tests.tar.gz', _tar({
        root + 'words/test.wsj.words.gz': zipped(words), root + 'props/test.wsj.props.gz': zipped(props)}))
    text = lambda lines: ('\n'.join(lines) + '\n').encode()
    conll05.WORDDICT_MD5 = _put(home, 'conll05st', 'wordDict.txt', text(known))
    conll05.VERBDICT_MD5 = _put(home, 'conll05st', 'verbDict.txt', text(verbs))
    conll05.TRGDICT_MD5 = _put(home, 'conll05st', 'targetDict.txt', text(tags))
    # 16 bytes of header, then a vector of 32 numbers for each word.
    vectors = np.random.RandomState(5).normal(0, 0.1, (len(known), 32)).astype('float32')
    conll05.EMB_MD5 = _put(home, 'conll05st', 'emb', bytes(16) + vectors.tobytes())


def wmt14(home, train=1500, test=100):
    """wmt14.tgz: a made-up language in which the verb comes last and 'the' is not said."""
    adjectives = {word: 'k' + word[:3] for word in datasets.ADJECTIVES}
    others = {word: 'x' + word[:4] for word in datasets.NOUNS + datasets.VERBS}

    def translated(sentence):
        subject, verb, thing = sentence[1:3], sentence[3], sentence[5]
        return [others[subject[1]], adjectives[subject[0]], others[thing], others[verb]]

    def lines(count, seed):
        pairs = [(s[:6], translated(s)) for s in datasets.sentences(count, seed)]
        return ''.join(f"{' '.join(a)}\t{' '.join(b)}\n" for a, b in pairs).encode()

    marks = ['<s>', '<e>', '<unk>']
    source = marks + ['the'] + datasets.ADJECTIVES + datasets.NOUNS + datasets.VERBS
    target = marks + list(adjectives.values()) + list(others.values())
    text = lambda words: ('\n'.join(words) + '\n').encode()
    paddle.dataset.wmt14.MD5_TRAIN = _put(home, 'wmt14', 'wmt14.tgz', _tar({
        'wmt14/train/train': lines(train, 7), 'wmt14/test/test': lines(test, 8),
        'wmt14/gen/gen': lines(test, 9), 'wmt14/src.dict': text(source), 'wmt14/trg.dict': text(target)}))
    return len(source), len(target)
