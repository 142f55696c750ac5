"""MQ2007: documents of some 1700 queries, with features and how relevant each is; for learning to rank."""
import functools
import os
import random
import shutil
import subprocess

import numpy

from . import common

__all__ = ['train', 'test']

URL = ('http://www.bigdatalab.ac.cn/benchmark/upload/download_source/'
       '7b6dbbe2-842c-11e4-a536-bcaec51b9163_MQ2007.rar')
MD5 = '7be1640ae95c6408dab0ae7207bdc706'

_UNPACK = (('unrar', 'x', '-o+'), ('7z', 'x', '-y'), ('bsdtar', '-xf'))


class Query:
    """A document of a query: how relevant it is, 0 to 2, and its features."""

    def __init__(self, query_id=-1, relevance_score=-1, feature_vector=None, description=''):
        self.query_id, self.relevance_score = query_id, relevance_score
        self.feature_vector = [] if feature_vector is None else feature_vector
        self.description = description

    def __str__(self):
        return ' '.join(str(each) for each in [self.relevance_score, self.query_id, *self.feature_vector])


class QueryList:
    """The documents of one query."""

    def __init__(self, querylist=None):
        self.query_id, self.querylist = -1, []
        for query in querylist or ():
            self._add_query(query)

    def __iter__(self):
        return iter(self.querylist)

    def __len__(self):
        return len(self.querylist)

    def __getitem__(self, i):
        return self.querylist[i]

    def _add_query(self, query):
        if self.querylist and query.query_id != self.query_id:
            raise ValueError(f'a document of query {query.query_id} among those of query {self.query_id}')
        self.query_id = query.query_id
        self.querylist.append(query)

    def _ranked(self):
        self.querylist.sort(key=lambda query: -query.relevance_score)
        return self.querylist


def _parsed(line, path, number, fill_missing):
    """'2 qid:10 1:0.25 2:NULL #docid = A': relevance, query, features by number, a remark."""
    facts, _, remark = line.partition('#')
    try:
        score, query, *features = facts.split()
        values = [feature.split(':')[1] for feature in features]
        numbers = [fill_missing if value == 'NULL' else float(value) for value in values]
        return Query(int(query.removeprefix('qid:')), int(score), numbers, remark.strip())
    except (ValueError, IndexError) as error:
        raise common.unreadable(path, f'line {number} is no document of a query ({error})') from None


def load_from_text(filepath, shuffle=False, fill_missing=-1):
    """The QueryLists of a file below the data set's folder, or of one with a whole path."""
    path = os.path.join(_folder(filepath), filepath)
    found = {}
    with open(path) as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                query = _parsed(line, path, number, fill_missing)
                found.setdefault(query.query_id, QueryList())._add_query(query)
    lists = list(found.values())
    if shuffle:
        random.shuffle(lists)
    return lists


def query_filter(querylists):
    """Without queries of which no document is relevant."""
    return [queries for queries in querylists if any(query.relevance_score > 0 for query in queries)]


def gen_plain_txt(querylist):
    """(query, relevance, features) of every document, the most relevant first."""
    for query in _list(querylist)._ranked():
        yield querylist.query_id, query.relevance_score, numpy.array(query.feature_vector)


def gen_point(querylist):
    """(relevance, features) of every document, the most relevant first."""
    for query in _list(querylist)._ranked():
        yield query.relevance_score, numpy.array(query.feature_vector)


def gen_pair(querylist, partial_order='full'):
    """([1], features, those of a less relevant document): of all such pairs, or of 'neighbour's in the order."""
    if partial_order not in ('full', 'neighbour'):
        raise ValueError(f"partial_order is 'full' or 'neighbour', got {partial_order!r}")
    ranked = _list(querylist)._ranked()
    for i, better in enumerate(ranked):
        others = ranked[i + 1:i + 2] if partial_order == 'neighbour' else ranked[i + 1:]
        for worse in others:
            if better.relevance_score > worse.relevance_score:
                yield numpy.array([1]), numpy.array(better.feature_vector), numpy.array(worse.feature_vector)


def gen_list(querylist):
    """(relevances [documents, 1], features [documents, n]) of the whole query, the most relevant first."""
    ranked = _list(querylist)._ranked()
    yield (numpy.array([[query.relevance_score] for query in ranked]),
           numpy.array([query.feature_vector for query in ranked]))


def _list(querylist):
    if not isinstance(querylist, QueryList):
        raise TypeError(f'a QueryList is due, got a {type(querylist).__name__}')
    return querylist


_FORMATS = {'plain_txt': gen_plain_txt, 'pointwise': gen_point, 'pairwise': gen_pair, 'listwise': gen_list}


def _samples(filepath, format='pairwise', shuffle=False, fill_missing=-1):
    """Samples of all queries with a relevant document. Of 'plain_txt' and 'pointwise' each query gives the most
    relevant document alone, as 1.8.5 has it."""
    if format not in _FORMATS:
        raise ValueError(f'format is {format!r}; it is one of {", ".join(_FORMATS)}')
    for queries in query_filter(load_from_text(filepath, shuffle, fill_missing)):
        samples = _FORMATS[format](queries)
        if format in ('plain_txt', 'pointwise'):
            yield next(samples)
        else:
            yield from samples


train = functools.partial(_samples, filepath='MQ2007/Fold1/train.txt')
test = functools.partial(_samples, filepath='MQ2007/Fold1/test.txt')


def _folder(filepath):
    """Where the archive is unpacked; it is fetched and unpacked where the file is not there yet."""
    folder = os.path.join(common.DATA_HOME, 'MQ2007')
    if os.path.isabs(filepath) or os.path.isfile(os.path.join(folder, filepath)):
        return folder
    archive = fetch()
    tool = next((tool for tool in _UNPACK if shutil.which(tool[0])), None)
    if tool is None:
        raise RuntimeError(f'{archive} is a RAR archive, and none of {", ".join(t[0] for t in _UNPACK)} is installed: '
                           f'unpack it so that {os.path.join(folder, filepath)} is there')
    done = subprocess.run([*tool, archive], cwd=folder, stdout=subprocess.DEVNULL)
    if done.returncode != 0 or not os.path.isfile(os.path.join(folder, filepath)):
        raise common.unreadable(archive, f'{tool[0]} does not get {filepath} out of it')
    return folder


def fetch():
    return common.download(URL, 'MQ2007', MD5)
