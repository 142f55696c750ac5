"""MovieLens 1M: who rated which film how, with what is known of both."""
import re
import zipfile

import numpy

from . import common

__all__ = ['train', 'test', 'get_movie_title_dict', 'max_movie_id', 'max_user_id', 'age_table',
           'movie_categories', 'max_job_id', 'user_info', 'movie_info']

URL = 'https://dataset.bj.bcebos.com/movielens%2Fml-1m.zip'
MD5 = 'c4d9eecfca2ab87c1945afe126590906'

age_table = [1, 18, 25, 35, 45, 50, 56]

MOVIE_INFO = None
MOVIE_TITLE_DICT = None
CATEGORIES_DICT = None
USER_INFO = None


class MovieInfo:
    """A film: its number, its categories and its title without the year."""

    def __init__(self, index, categories, title):
        self.title, self.categories, self.index = title, categories, int(index)

    def value(self):
        """[number, numbers of the categories, numbers of the title's words]"""
        words = _words(self.title)
        return [self.index, [CATEGORIES_DICT[kind] for kind in self.categories],
                [MOVIE_TITLE_DICT[word] for word in words]]

    def __repr__(self):
        return f'MovieInfo({self.index}, {self.categories}, {self.title!r})'


class UserInfo:
    """A person: number, sex, place of the age in age_table, and job."""

    def __init__(self, index, gender, age, job_id):
        self.index, self.job_id = int(index), int(job_id)
        self.age = age_table.index(int(age))
        self.is_male = gender == 'M'

    def value(self):
        """[number, 0 for a man and 1 for a woman, place of the age, job]"""
        sex = int(not self.is_male)
        return [self.index, sex, self.age, self.job_id]

    def __repr__(self):
        sex = 'M' if self.is_male else 'F'
        return f'UserInfo({self.index}, {sex!r}, {age_table[self.age]}, {self.job_id})'


def _words(title):
    return title.lower().split()


def _rows(package, path, name, columns):
    try:
        file = package.open('ml-1m/' + name)
    except KeyError as error:
        raise common.unreadable(path, f'it has no ml-1m/{name}') from error
    with file:
        for number, line in enumerate(file, 1):
            fields = line.decode('latin').strip().split('::')
            if len(fields) != columns:
                raise common.unreadable(path, f'line {number} of {name} has {len(fields)} fields, '
                                        f'not {columns}')
            yield fields


def _numbered(words):
    # Sorted, so that a word has one number in every run: a saved model depends on it.
    return {word: i for i, word in enumerate(sorted(words))}


def _load():
    """Fills the tables once; the path of the archive."""
    global MOVIE_INFO, MOVIE_TITLE_DICT, CATEGORIES_DICT, USER_INFO
    path = common.download(URL, 'movielens', MD5)
    if MOVIE_INFO is not None:
        return path
    with zipfile.ZipFile(path) as package:
        movies, users = {}, {}
        for index, title, categories in _rows(package, path, 'movies.dat', 3):
            named = re.fullmatch(r'(.*)\(\d+\)', title)
            if named is None:
                raise common.unreadable(path, f'the title {title!r} has no year')
            movies[int(index)] = MovieInfo(index, categories.split('|'), named.group(1))
        for index, gender, age, job, _ in _rows(package, path, 'users.dat', 5):
            users[int(index)] = UserInfo(index, gender, age, job)
    MOVIE_TITLE_DICT = _numbered({word for m in movies.values() for word in _words(m.title)})
    CATEGORIES_DICT = _numbered({c for m in movies.values() for c in m.categories})
    MOVIE_INFO, USER_INFO = movies, users
    return path


def _reader(rand_seed, test_ratio, is_test):
    def reader():
        path = _load()
        random = numpy.random.RandomState(rand_seed)
        with zipfile.ZipFile(path) as package:
            for user, movie, rating, _ in _rows(package, path, 'ratings.dat', 4):
                if (random.random_sample() < test_ratio) == is_test:
                    yield (USER_INFO[int(user)].value() + MOVIE_INFO[int(movie)].value() +
                           [[float(rating) * 2 - 5.0]])
    return reader


def train(rand_seed=0, test_ratio=0.1):
    """Samples: user, sex, age, job, film, categories, title, [rating from -3 to 5]."""
    return _reader(rand_seed, test_ratio, False)


def test(rand_seed=0, test_ratio=0.1):
    """The ratings that train leaves out."""
    return _reader(rand_seed, test_ratio, True)


def get_movie_title_dict():
    _load()
    return MOVIE_TITLE_DICT


def movie_categories():
    _load()
    return CATEGORIES_DICT


def user_info():
    _load()
    return USER_INFO


def movie_info():
    _load()
    return MOVIE_INFO


def max_movie_id():
    return max(movie_info())


def max_user_id():
    return max(user_info())


def max_job_id():
    return max(user.job_id for user in user_info().values())


def fetch():
    common.download(URL, 'movielens', MD5)
