"""CoNLL 2005: sentences with the roles that their words play for one of their verbs."""
import gzip
import tarfile

from . import common

__all__ = ['test', 'get_dict', 'get_embedding']

DATA_URL = 'http://paddlemodels.bj.bcebos.com/conll05st/conll05st-tests.tar.gz'
DATA_MD5 = '387719152ae52d60422c016e92a742fc'
WORDDICT_URL = 'http://paddlemodels.bj.bcebos.com/conll05st%2FwordDict.txt'
WORDDICT_MD5 = 'ea7fb7d4c75cc6254716f0177a506baa'
VERBDICT_URL = 'http://paddlemodels.bj.bcebos.com/conll05st%2FverbDict.txt'
VERBDICT_MD5 = '0d2977293bbb6cbefab5b0f97db1e77c'
TRGDICT_URL = 'http://paddlemodels.bj.bcebos.com/conll05st%2FtargetDict.txt'
TRGDICT_MD5 = 'd8c7f03ceb5fc2e5a0fa7503a4353751'
EMB_URL = 'http://paddlemodels.bj.bcebos.com/conll05st%2Femb'
EMB_MD5 = 'bf436eb0faa1f6f9103017f8be57cdb7'

UNK_IDX = 0

_WORDS = 'conll05st-release/test.wsj/words/test.wsj.words.gz'
_PROPS = 'conll05st-release/test.wsj/props/test.wsj.props.gz'


def load_label_dict(filename):
    """B-x and I-x have neighbouring numbers; O is the last."""
    with open(filename) as file:
        tags = sorted({line.strip()[2:] for line in file if line.startswith(('B-', 'I-'))})
    numbers = {}
    for tag in tags:
        numbers['B-' + tag] = len(numbers)
        numbers['I-' + tag] = len(numbers)
    numbers['O'] = len(numbers)
    return numbers


def load_dict(filename):
    with open(filename) as file:
        return {line.strip(): i for i, line in enumerate(file)}


def _tags(column, path):
    """(A0* * *) * (V*): brackets around chunks become B-A0 I-A0 I-A0 O B-V."""
    tags, inside = [], None
    for mark in column:
        if '(' in mark:
            inside = mark[1:mark.index('*')]
            tags.append('B-' + inside)
        elif mark in ('*', '*)'):
            tags.append('I-' + inside if inside else 'O')
        else:
            raise common.unreadable(path, f'unexpected label {mark!r}')
        if mark.endswith(')'):
            inside = None
    return tags


def corpus_reader(data_path, words_name, props_name):
    """Yields (words, verb, tags), once for each verb of a sentence."""
    def reader():
        with tarfile.open(data_path) as archive:
            texts = [gzip.decompress(common.member(archive, data_path, name).read()).decode()
                     for name in (words_name, props_name)]
        words, rows = [], []
        for word, props in zip(*[text.splitlines() + [''] for text in texts]):
            if props.split():
                words.append(word.strip())
                rows.append(props.split())
                continue
            columns = list(zip(*rows))
            verbs = [verb for verb in columns[0] if verb != '-'] if columns else []
            for verb, column in zip(verbs, columns[1:]):
                yield words, verb, _tags(column, data_path)
            words, rows = [], []
    return reader


def reader_creator(corpus_reader, word_dict=None, predicate_dict=None, label_dict=None):
    """Samples of nine lists, each as long as the sentence: words, the five words around the verb,
    the verb, which words those five are, and the tags."""
    def reader():
        for sentence, predicate, labels in corpus_reader():
            size, verb = len(sentence), labels.index('B-V')
            around = range(verb - 2, verb + 3)
            context = ['bos' if i < 0 else 'eos' if i >= size else sentence[i] for i in around]
            yield ([word_dict.get(w, UNK_IDX) for w in sentence],
                   *[[word_dict.get(w, UNK_IDX)] * size for w in context],
                   [predicate_dict.get(predicate)] * size,
                   [int(i in around) for i in range(size)],
                   [label_dict.get(label) for label in labels])
    return reader


def get_dict():
    """Numbers of words, of verbs and of tags."""
    return (load_dict(common.download(WORDDICT_URL, 'conll05st', WORDDICT_MD5)),
            load_dict(common.download(VERBDICT_URL, 'conll05st', VERBDICT_MD5)),
            load_label_dict(common.download(TRGDICT_URL, 'conll05st', TRGDICT_MD5)))


def get_embedding():
    """The path of word vectors trained on Wikipedia: 16 bytes of header, then float32."""
    return common.download(EMB_URL, 'conll05st', EMB_MD5)


def test():
    """The public test set, which the book trains on: the training set is not free."""
    dictionaries = get_dict()
    path = common.download(DATA_URL, 'conll05st', DATA_MD5)
    return reader_creator(corpus_reader(path, _WORDS, _PROPS), *dictionaries)


def fetch():
    get_dict()
    get_embedding()
    common.download(DATA_URL, 'conll05st', DATA_MD5)
