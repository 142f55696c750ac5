"""paddle.dataset: readers of files in the cache folder, and what they say when a file is wrong."""
import gzip
import io
import pickle
import re
import struct
import tarfile

import numpy as np
import pytest

import paddle
from paddle.dataset import cifar, common, imdb, imikolov, mnist, uci_housing


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setattr(common, 'DATA_HOME', str(tmp_path))
    monkeypatch.setattr(uci_housing, 'UCI_TRAIN_DATA', None)
    monkeypatch.setattr(uci_housing, 'UCI_TEST_DATA', None)
    return tmp_path


def put(home, name, text):
    path = home / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(text)


def archive(files):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode='w:gz') as tar:
        for name, text in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(text)
            tar.addfile(info, io.BytesIO(text))
    return out.getvalue()


def test_mnist_images_run_from_minus_one_to_one(home):
    put(home, 'mnist/train-images-idx3-ubyte.gz',
        gzip.compress(struct.pack('>IIII', 2051, 2, 28, 28) + bytes([0] * 784 + [255] * 784)))
    put(home, 'mnist/train-labels-idx1-ubyte.gz', gzip.compress(struct.pack('>II', 2049, 2) + b'\3\7'))
    samples = list(mnist.train()())
    assert [label for _, label in samples] == [3, 7]
    assert samples[0][0].dtype == np.float32 and samples[0][0].shape == (784,)
    assert (samples[0][0] == -1).all() and (samples[1][0] == 1).all()


def test_a_missing_file_says_where_it_should_be(home):
    with pytest.raises(FileNotFoundError, match=re.escape(str(home / 'mnist' / 't10k-images'))):
        next(mnist.test()())


def test_a_cut_off_file_is_refused(home):
    put(home, 'mnist/t10k-images-idx3-ubyte.gz',
        gzip.compress(struct.pack('>IIII', 2051, 2, 28, 28) + bytes(100)))
    with pytest.raises(ValueError, match='100 bytes of data, not 1568'):
        next(mnist.test()())


def test_cifar(home):
    batch = {b'data': np.full((2, 3072), 51, 'uint8'), b'labels': [4, 5]}
    put(home, 'cifar/cifar-10-python.tar.gz',
        archive({'cifar-10-batches-py/data_batch_1': pickle.dumps(batch, 2)}))
    samples = list(cifar.train10()())
    assert [label for _, label in samples] == [4, 5]
    np.testing.assert_allclose(samples[0][0], np.full(3072, 0.2, 'float32'))
    with pytest.raises(ValueError, match='test_batch'):
        next(cifar.test10()())


def test_a_pickle_that_holds_more_than_arrays_is_refused(home):
    put(home, 'cifar/cifar-10-python.tar.gz',
        archive({'cifar-10-batches-py/data_batch_1': pickle.dumps({b'data': print}, 2)}))
    with pytest.raises(ValueError, match='print'):
        next(cifar.train10()())


def test_uci_housing(home):
    rows = np.arange(10 * 14, dtype='float64').reshape(10, 14)
    put(home, 'uci_housing/housing.data', '\n'.join(' '.join(map(str, r)) for r in rows).encode())
    train, test = list(uci_housing.train()()), list(uci_housing.test()())
    assert (len(train), len(test)) == (8, 2)
    assert train[0][0].shape == (13,) and train[0][1].tolist() == [13]
    np.testing.assert_allclose(train[0][0], -0.5)


def test_imdb(home):
    put(home, 'imdb/aclImdb_v1.tar.gz',
        archive({'aclImdb/train/pos/1.txt': b'Good, good film!', 'aclImdb/train/neg/1.txt': b'Bad film.'}))
    words = imdb.build_dict(re.compile(r'aclImdb/train/.*\.txt$'), 1)
    assert words == {b'film': 0, b'good': 1, '<unk>': 2}
    assert list(imdb.train(words)()) == [([1, 1, 0], 0), ([2, 0], 1)]


def test_imikolov(home):
    put(home, 'imikolov/simple-examples.tgz',
        archive({'./simple-examples/data/ptb.train.txt': b'a b a\n',
                 './simple-examples/data/ptb.valid.txt': b'a <unk>\n'}))
    words = imikolov.build_dict(1)
    assert words == {'a': 0, '<e>': 1, '<s>': 2, '<unk>': 3}
    assert list(imikolov.train(words, 3)()) == [(2, 0, 3), (0, 3, 0), (3, 0, 1)]
    assert list(imikolov.test(words, 0, imikolov.DataType.SEQ)()) == [([2, 0, 3], [0, 3, 1])]


def test_sets_that_are_not_built_say_so():
    with pytest.raises(NotImplementedError, match='wmt14'):
        paddle.dataset.wmt14.train(1000)


def test_split_and_cluster_files_reader(tmp_path):
    common.split(lambda: iter(range(10)), 3, str(tmp_path / '%05d.pickle'))
    first = common.cluster_files_reader(str(tmp_path / '*.pickle'), 2, 0)
    second = common.cluster_files_reader(str(tmp_path / '*.pickle'), 2, 1)
    assert list(first()) == [0, 1, 2, 6, 7, 8] and list(second()) == [3, 4, 5, 9]
