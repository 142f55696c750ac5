"""Data for the examples that is made by rules: sentences, reviews, roles, ratings, numbers in words, shapes.

Nothing here was collected from the world. Rules have one advantage: they tell what the best possible
result is, and a program can be held against it.
"""
import io
import os
import zipfile

import numpy as np
import paddle


class Vocabulary:
    """Words and their numbers."""

    def __init__(self, words):
        self.words = list(words)
        self.number = {word: i for i, word in enumerate(self.words)}

    def __len__(self):
        return len(self.words)

    def encode(self, words):
        return [self.number[word] for word in words]

    def decode(self, numbers):
        return [self.words[number] for number in numbers]


# ---- a text whose next word depends on the four before it (word2vec.py)

KINDS = {name: words.split() for name, words in {
    'person': 'captain rower sailor pilot cook widow', 'animal': 'gull dolphin whale dog cat crab',
    'ship': 'trireme galley barge raft ferry', 'food': 'bread fish olives wine figs',
    'place': 'harbour island temple market lighthouse', 'quality': 'old young tired proud',
    'act on a ship': 'steers boards repairs follows circles',
    'act on food': 'cooks buys praises smells steals', 'act on a place': 'visits remembers'}.items()}
ACTS = {'person': 'steers boards repairs cooks buys praises visits remembers'.split(),
        'animal': 'follows circles smells steals'.split()}
OBJECTS = {'act on a ship': 'ship', 'act on food': 'food', 'act on a place': 'place'}
ENDINGS = {'ship': ('at', 'dawn noon dusk night'.split()),
           'food': ('with', 'salt honey garlic mint'.split()),
           'place': ('in', 'spring summer autumn winter'.split())}


def kind_of_word():
    """The words from which something follows for later words, each with the name of its kind."""
    return {word: kind for kind, words in KINDS.items() for word in words}


def text_words():
    ends = [word for link, closing in ENDINGS.values() for word in [link] + closing]
    return Vocabulary(sorted(kind_of_word()) + ends + ['the', '.'])


def text(length, seed):
    """(words, how likely each was after the four words before it).

    Sentences like 'the old gull follows the barge at noon .'. Every choice depends on words that are
    at most four back, so no model of four words can expect more than these likelihoods.
    """
    chance = np.random.RandomState(seed)
    kinds = kind_of_word()
    words, likelihood = [], []

    def say(choices, share=1.0):
        words.append(choices[chance.randint(len(choices))])
        likelihood.append(share / len(choices))
        return words[-1]

    while len(words) < length:
        say(['the'])
        described = chance.rand() < 0.4
        if described:
            say(KINDS['quality'], 0.4)
        who = ['person', 'animal'][chance.randint(2)]
        say(KINDS[who], 0.5 if described else 0.3)
        what = OBJECTS[kinds[say(ACTS[who])]]
        say(['the'])
        say(KINDS[what])
        if chance.rand() < 0.5:
            link, closing = ENDINGS[what]
            say([link], 0.5)
            say(closing)
            say(['.'])
        else:
            say(['.'], 0.5)
    return words, likelihood


# ---- film reviews in which the order of the words matters (understand_sentiment.py)

PRAISE = 'fine warm clever moving lively honest charming'.split()
BLAME = 'dull cold clumsy flat tired false tedious'.split()
TOPICS = 'plot cast music script ending humour'.split()


def review_words():
    return Vocabulary(PRAISE + BLAME + TOPICS + 'the is not really but and'.split())


def reviews(count, seed):
    """(words, 1 for a good review or 0 for a bad one): reviews of one to five clauses, no two the same.

    'the plot is dull but the music is not really cold': 'not' turns an opinion round, and what comes
    after 'but' weighs more than all before it.
    """
    chance = np.random.RandomState(seed)
    made = {}
    while len(made) < count:
        words, balance = [], 0
        for clause in range(chance.randint(1, 6)):
            if clause:
                link = ['and', 'but'][chance.rand() < 0.3]
                words.append(link)
                balance = 0.5 * np.sign(balance) if link == 'but' else balance
            pleased, negated = chance.rand(2) < [0.5, 0.4]
            opinions = PRAISE if pleased != negated else BLAME
            words += ['the', TOPICS[chance.randint(len(TOPICS))], 'is'] + ['not'] * int(negated)
            words += ['really'] * int(chance.rand() < 0.3) + [opinions[chance.randint(len(opinions))]]
            balance += 1 if pleased else -1
        if balance:  # one that is neither good nor bad is thrown away
            made[tuple(words)] = int(balance > 0)
    return list(made.items())


# ---- who does what to whom (label_semantic_roles.py)

ROLES = ['V', 'A0', 'A1', 'TMP', 'LOC']  # the act, who does it, to whom, when, where
PEOPLE = 'captain rower sailor pilot cook widow merchant child soldier priest'.split()
VERBS = [pair.split('/') for pair in 'sees/seen follows/followed fears/feared greets/greeted '
         'calls/called helps/helped knows/known warns/warned'.split()]
WHEN = [phrase.split() for phrase in ('at dawn', 'at night', 'before the storm', 'every day')]
WHERE = [phrase.split() for phrase in ('on the ship', 'in the harbour', 'near the island',
                                       'behind the temple')]


def role_tags():
    """B- begins a phrase, I- goes on with it; O is what belongs to none and has the last number."""
    return Vocabulary([mark + role for role in ROLES for mark in ('B-', 'I-')] + ['O'])


def role_words():
    phrases = [word for phrase in WHEN + WHERE for word in phrase]
    return Vocabulary(sorted(set(PEOPLE + KINDS['quality'] + sum(VERBS, []) + phrases +
                                 ['the', 'who', 'is', 'by'])))


def role_sentences(count, seed):
    """count sentences, no two the same: for each the samples (words, place of a verb, tags seen from it).

    A sentence has one verb or two: in 'the cook who fears the pilot is seen by the widow at dawn' the
    cook is the one who fears (A0) and the one who is seen (A1), and 'at dawn' belongs to 'seen'.
    """
    chance = np.random.RandomState(seed)

    def pick(choices):
        return choices[chance.randint(len(choices))]

    def somebody():
        return ['the'] + [pick(KINDS['quality'])] * int(chance.rand() < 0.3) + [pick(PEOPLE)]

    def predicate(verb):
        """The phrases of verb number verb, and the role in which it sees the subject before it."""
        active, passive = pick(VERBS)
        if chance.rand() < 0.6:
            return [('V', [active], verb), ('A1', somebody(), verb)], 'A0'
        return [('O', ['is'], verb), ('V', [passive], verb), ('O', ['by'], verb),
                ('A0', somebody(), verb)], 'A1'

    made = {}
    while len(made) < count:
        subject = somebody()
        main, role = predicate(0)
        subject_roles, clause = [role], []
        if chance.rand() < 0.5:
            clause, role = predicate(1)
            clause = [('O', ['who'], 1)] + clause
            subject_roles.append(role)
        phrases = [(None, subject, None)] + clause + main
        for role, choices in (('TMP', WHEN), ('LOC', WHERE)):
            if chance.rand() < 0.5:
                phrases.insert(0 if chance.rand() < 0.4 else len(phrases), (role, pick(choices), 0))
        words = [word for _, phrase, _ in phrases for word in phrase]
        samples = []
        for asked, subject_role in enumerate(subject_roles):
            tags, verb_at = [], None
            for role, phrase, owner in phrases:
                role = subject_role if role is None else role if owner == asked else 'O'
                if role == 'V':
                    verb_at = len(tags)
                tags += ['O'] * len(phrase) if role == 'O' else \
                    ['B-' + role] + ['I-' + role] * (len(phrase) - 1)
            samples.append((words, verb_at, tags))
        made[tuple(words)] = samples
    return list(made.values())


# ---- ratings, as a file in the format of MovieLens 1M (recommender_system.py)

GENRES = 'Action Comedy Drama Horror Romance War'.split()
NOISE = 0.2  # deviation of what a person answers from what the person thinks, in stars


def movielens(folder, users=150, films=100, ratings=8000):
    """Writes ml-1m.zip where paddle.dataset.movielens looks for it.

    What somebody thinks of a film depends on its genres, on the age and the sex of that person and on
    how good the film is; what is written down is that plus noise, rounded to one to five stars.
    """
    movielens = paddle.dataset.movielens
    chance = np.random.RandomState(3)
    ages = movielens.age_table
    people = [(chance.randint(2), chance.randint(len(ages)), chance.randint(21)) for _ in range(users)]
    genres = [sorted(chance.choice(len(GENRES), chance.randint(1, 3), replace=False)) for _ in range(films)]
    taste = chance.uniform(-1.5, 1.5, (2, len(ages), len(GENRES)))
    goodness = chance.uniform(-0.7, 0.7, films)
    lines = []
    for pair in chance.choice(users * films, ratings, replace=False):
        user, film = divmod(pair, films)
        woman, age, _ = people[user]
        stars = 3 + goodness[film] + taste[woman, age, genres[film]].mean() + chance.normal(0, NOISE)
        lines.append('%d::%d::%d::0' % (user + 1, film + 1, np.clip(np.rint(stars), 1, 5)))
    titles = ['The %s %s' % (quality.title(), noun.title()) for quality in KINDS['quality']
              for kind in ('person', 'animal', 'ship', 'food', 'place') for noun in KINDS[kind]]
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, 'w') as archive:
        archive.writestr('ml-1m/ratings.dat', '\n'.join(lines))
        archive.writestr('ml-1m/users.dat', '\n'.join(
            '%d::%s::%d::%d::0' % (i, 'MF'[woman], ages[age], job)
            for i, (woman, age, job) in enumerate(people, 1)))
        archive.writestr('ml-1m/movies.dat', '\n'.join(
            '%d::%s (%d)::%s' % (i, titles[i], 1980 + i % 20, '|'.join(GENRES[g] for g in kinds))
            for i, kinds in enumerate(genres, 1)))
    path = os.path.join(folder, 'movielens', 'ml-1m.zip')
    os.makedirs(os.path.dirname(path))
    with open(path, 'wb') as file:
        file.write(packed.getvalue())
    paddle.dataset.common.DATA_HOME = folder
    movielens.MD5 = paddle.dataset.common.md5file(path)


# ---- numbers: English to German (machine_translation.py), Roman to Arabic (rnn_encoder_decoder.py)

ENGLISH = ('zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen '
           'fifteen sixteen seventeen eighteen nineteen').split()
ENGLISH_TENS = 'twenty thirty forty fifty sixty seventy eighty ninety'.split()
GERMAN = ('null eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn '
          'fünfzehn sechzehn siebzehn achtzehn neunzehn').split()
GERMAN_TENS = 'zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig'.split()


def in_english(number):
    """The words of a number below 10,000: 2021 is two thousand and twenty one."""
    thousands, hundreds, rest = number // 1000, number // 100 % 10, number % 100
    words = [ENGLISH[thousands], 'thousand'] if thousands else []
    words += [ENGLISH[hundreds], 'hundred'] if hundreds else []
    if rest or not words:
        words += ['and'] if words else []
        if rest < 20:
            words.append(ENGLISH[rest])
        else:
            words += [ENGLISH_TENS[rest // 10 - 2]] + ([ENGLISH[rest % 10]] if rest % 10 else [])
    return words


def in_german(number):
    """The parts of a number's word, ones before tens: 2021 is zwei tausend ein und zwanzig."""
    ones = ['', 'ein'] + GERMAN[2:10]
    thousands, hundreds, rest = number // 1000, number // 100 % 10, number % 100
    words = [ones[thousands], 'tausend'] if thousands else []
    words += [ones[hundreds], 'hundert'] if hundreds else []
    if rest >= 20:
        words += [ones[rest % 10], 'und'] if rest % 10 else []
        words.append(GERMAN_TENS[rest // 10 - 2])
    elif rest or not words:
        words.append(GERMAN[rest])
    return words


ROMAN = [(1000, 'M'), (900, 'CM'), (500, 'D'), (400, 'CD'), (100, 'C'), (90, 'XC'), (50, 'L'), (40, 'XL'),
         (10, 'X'), (9, 'IX'), (5, 'V'), (4, 'IV'), (1, 'I')]


def in_roman(number):
    """1998 is MCMXCVIII; from 1 to 3999."""
    letters = ''
    for value, sign in ROMAN:
        letters += sign * (number // value)
        number %= value
    return letters


# ---- shapes on noisy ground, each with the box around it (object_detection.py)

SHAPES = ['square', 'disc', 'cross']


def _shape(kind, side):
    """Which pixels of side x side belong to it."""
    rows, columns = np.mgrid[:side, :side] - (side - 1) / 2
    if kind == 'square':
        return np.ones((side, side), bool)
    if kind == 'disc':
        return rows ** 2 + columns ** 2 <= (side / 2) ** 2
    return (abs(rows) < side / 6) | (abs(columns) < side / 6)


def pictures_of_shapes(count, seed):
    """(pictures [count, 3, 32, 32], for each its boxes [n, 4], their kinds [n]).

    One to three shapes in a picture, of 8 to 16 pixels, which overlap by no more than corners. Boxes are
    left, top, right and bottom in parts of the picture.
    """
    chance = np.random.RandomState(seed)
    pictures = chance.uniform(-0.3, 0.3, (count, 3, 32, 32)).astype('float32')
    boxes, kinds = [], []
    for picture in pictures:
        taken, found, names = np.zeros((32, 32), bool), [], []
        while len(found) < chance.randint(1, 4):
            kind, side = chance.randint(len(SHAPES)), chance.randint(8, 17)
            left, top = chance.randint(0, 33 - side, 2)
            place = slice(top, top + side), slice(left, left + side)
            if taken[place].mean() > 0.1:
                if len(found):
                    break
                continue
            taken[place] = True
            picture[:, place[0], place[1]][:, _shape(SHAPES[kind], side)] = \
                chance.choice([-1, 1], (3, 1)) * chance.uniform(0.5, 1, (3, 1))
            found.append([left / 32, top / 32, (left + side) / 32, (top + side) / 32])
            names.append(kind)
        boxes.append(np.array(found, 'float32'))
        kinds.append(np.array(names, 'int32'))
    return pictures, boxes, kinds
