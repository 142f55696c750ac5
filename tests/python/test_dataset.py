"""paddle.dataset: readers of files in the cache folder, and what they say when a file is wrong."""
import gzip
import hashlib
import io
import pickle
import re
import struct
import tarfile
import zipfile

import numpy as np
import pytest

from paddle.dataset import (cifar, common, conll05, flowers, image, imdb, imikolov, mnist, movielens, mq2007,
                            sentiment, uci_housing, voc2012, wmt14, wmt16)


@pytest.fixture
def put(tmp_path, monkeypatch):
    """put(name in the cache, bytes, module, name of its md5 sum)"""
    monkeypatch.setattr(common, 'DATA_HOME', str(tmp_path))
    for module, names in ((uci_housing, ['UCI_TRAIN_DATA', 'UCI_TEST_DATA']),
                          (movielens, ['MOVIE_INFO', 'MOVIE_TITLE_DICT', 'CATEGORIES_DICT', 'USER_INFO'])):
        for name in names:
            monkeypatch.setattr(module, name, None)

    def no_network(url, timeout):
        raise OSError('no network')
    monkeypatch.setattr(common.urllib.request, 'urlopen', no_network)

    def put(name, text, module=None, md5=None):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(text)
        if module:
            monkeypatch.setattr(module, md5, hashlib.md5(text).hexdigest())
    return put


def archive(files):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode='w:gz') as tar:
        for name, text in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(text)
            tar.addfile(info, io.BytesIO(text))
    return out.getvalue()


def zipped(files):
    out = io.BytesIO()
    with zipfile.ZipFile(out, 'w') as package:
        for name, text in files.items():
            package.writestr(name, text)
    return out.getvalue()


def encoded(pixels, form):
    from PIL import Image
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, form)
    return out.getvalue()


def test_mnist_images_run_from_minus_one_to_one(put):
    put('mnist/train-images-idx3-ubyte.gz',
        gzip.compress(struct.pack('>IIII', 2051, 2, 28, 28) + bytes([0] * 784 + [255] * 784)),
        mnist, 'TRAIN_IMAGE_MD5')
    put('mnist/train-labels-idx1-ubyte.gz', gzip.compress(struct.pack('>II', 2049, 2) + b'\3\7'),
        mnist, 'TRAIN_LABEL_MD5')
    samples = list(mnist.train()())
    assert [label for _, label in samples] == [3, 7]
    assert samples[0][0].dtype == np.float32 and samples[0][0].shape == (784,)
    assert (samples[0][0] == -1).all() and (samples[1][0] == 1).all()


def test_a_missing_file_that_cannot_be_fetched_says_where_it_should_be(put, tmp_path):
    with pytest.raises(RuntimeError, match=re.escape(str(tmp_path / 'mnist' / 't10k-images-idx3-ubyte.gz'))):
        mnist.test()
    with pytest.raises(RuntimeError, match=r'cannot be fetched \(no network\): put the file with the md5 sum c4d9'):
        movielens.max_user_id()


def test_a_file_with_another_md5_sum_is_refused_and_kept(put, tmp_path):
    put('mnist/t10k-images-idx3-ubyte.gz', b'not the file')
    wrong = hashlib.md5(b'not the file').hexdigest()
    with pytest.raises(RuntimeError, match=f'has the md5 sum {wrong}, not {mnist.TEST_IMAGE_MD5}'):
        mnist.test()
    assert (tmp_path / 'mnist' / 't10k-images-idx3-ubyte.gz').read_bytes() == b'not the file'


def test_download_fetches_what_is_not_there_and_checks_it(put, tmp_path, monkeypatch):
    asked = []

    def network(url, timeout):
        asked.append(url)
        return io.BytesIO(b'contents')
    monkeypatch.setattr(common.urllib.request, 'urlopen', network)
    right = hashlib.md5(b'contents').hexdigest()
    for _ in range(2):
        assert common.download('http://host/some%2Ffile.txt', 'set', right) == str(tmp_path / 'set' / 'some%2Ffile.txt')
    assert asked == ['http://host/some%2Ffile.txt']
    with pytest.raises(RuntimeError, match='what it gives has the md5 sum'):
        common.download('http://host/other', 'set', '0' * 32)
    assert [path.name for path in (tmp_path / 'set').iterdir()] == ['some%2Ffile.txt']


def test_a_cut_off_file_is_refused(put):
    put('mnist/t10k-images-idx3-ubyte.gz',
        gzip.compress(struct.pack('>IIII', 2051, 2, 28, 28) + bytes(100)), mnist, 'TEST_IMAGE_MD5')
    put('mnist/t10k-labels-idx1-ubyte.gz', gzip.compress(b''), mnist, 'TEST_LABEL_MD5')
    with pytest.raises(ValueError, match='100 bytes of data, not 1568'):
        next(mnist.test()())


def test_cifar(put):
    batch = {b'data': np.full((2, 3072), 51, 'uint8'), b'labels': [4, 5]}
    put('cifar/cifar-10-python.tar.gz',
        archive({'cifar-10-batches-py/data_batch_1': pickle.dumps(batch, 2)}), cifar, 'CIFAR10_MD5')
    samples = list(cifar.train10()())
    assert [label for _, label in samples] == [4, 5]
    np.testing.assert_allclose(samples[0][0], np.full(3072, 0.2, 'float32'))
    with pytest.raises(ValueError, match='test_batch'):
        next(cifar.test10()())


def test_a_pickle_that_holds_more_than_arrays_is_refused(put):
    put('cifar/cifar-10-python.tar.gz',
        archive({'cifar-10-batches-py/data_batch_1': pickle.dumps({b'data': print}, 2)}), cifar, 'CIFAR10_MD5')
    with pytest.raises(ValueError, match='print'):
        next(cifar.train10()())


def test_uci_housing(put):
    rows = np.arange(10 * 14, dtype='float64').reshape(10, 14)
    put('uci_housing/housing.data', '\n'.join(' '.join(map(str, r)) for r in rows).encode(), uci_housing, 'MD5')
    train, test = list(uci_housing.train()()), list(uci_housing.test()())
    assert (len(train), len(test)) == (8, 2) and len(uci_housing.UCI_TRAIN_DATA) == 8
    assert train[0][0].shape == (13,) and train[0][1].tolist() == [13]
    np.testing.assert_allclose(train[0][0], -0.5)


def test_imdb(put):
    put('imdb/aclImdb_v1.tar.gz',
        archive({'aclImdb/train/pos/1.txt': b'Good, good film!', 'aclImdb/train/neg/1.txt': b'Bad film.'}),
        imdb, 'MD5')
    words = imdb.build_dict(re.compile(r'aclImdb/train/.*\.txt$'), 1)
    assert words == {b'film': 0, b'good': 1, '<unk>': 2}
    assert list(imdb.train(words)()) == [([1, 1, 0], 0), ([2, 0], 1)]


def test_imikolov(put):
    put('imikolov/simple-examples.tgz',
        archive({'./simple-examples/data/ptb.train.txt': b'a b a\n',
                 './simple-examples/data/ptb.valid.txt': b'a <unk>\n'}), imikolov, 'MD5')
    words = imikolov.build_dict(1)
    assert words == {'a': 0, '<e>': 1, '<s>': 2, '<unk>': 3}
    assert list(imikolov.train(words, 3)()) == [(2, 0, 3), (0, 3, 0), (3, 0, 1)]
    assert list(imikolov.test(words, 0, imikolov.DataType.SEQ)()) == [([2, 0, 3], [0, 3, 1])]


MOVIES = {'ml-1m/movies.dat': '1::Toy Story (1995)::Animation|Comedy\n3::Story of É (1975)::Drama\n',
          'ml-1m/users.dat': '1::F::1::10::48067\n2::M::56::16::70072\n',
          'ml-1m/ratings.dat': ''.join(f'{1 + i % 2}::{1 + 2 * (i % 2)}::{1 + i % 5}::97{i}\n' for i in range(50))}


def test_movielens(put):
    put('movielens/ml-1m.zip', zipped({k: v.encode('latin') for k, v in MOVIES.items()}), movielens, 'MD5')
    assert (movielens.max_user_id(), movielens.max_movie_id(), movielens.max_job_id()) == (2, 3, 16)
    assert movielens.movie_categories() == {'Animation': 0, 'Comedy': 1, 'Drama': 2}
    assert movielens.get_movie_title_dict() == {'of': 0, 'story': 1, 'toy': 2, 'é': 3}
    assert movielens.user_info()[1].value() == [1, 1, 0, 10] and not movielens.user_info()[1].is_male
    train, test = list(movielens.train()()), list(movielens.test()())
    assert len(train) + len(test) == 50 and 0 < len(test) < 15
    assert train[0] == [1, 1, 0, 10, 1, [0, 1], [2, 1], [-3.0]]
    assert list(movielens.train()()) == train


def test_a_row_of_movielens_with_missing_fields_is_named(put):
    files = dict(MOVIES, **{'ml-1m/users.dat': '1::F::1\n'})
    put('movielens/ml-1m.zip', zipped({k: v.encode('latin') for k, v in files.items()}), movielens, 'MD5')
    with pytest.raises(ValueError, match='line 1 of users.dat has 3 fields, not 5'):
        movielens.user_info()


def put_conll05(put):
    words = 'The\nold\nship\nleft\n.\n\nIt\nsank\nand\nrests\n'
    props = ('- (A0*\n- *\n- *)\nleave (V*)\n- *\n\n'
             '- (A1*) (A1*)\nsink (V*) *\n- * *\nrest * (V*)\n')
    root = 'conll05st-release/test.wsj/'
    put('conll05st/conll05st-tests.tar.gz',
        archive({root + 'words/test.wsj.words.gz': gzip.compress(words.encode()),
                 root + 'props/test.wsj.props.gz': gzip.compress(props.encode())}), conll05, 'DATA_MD5')
    put('conll05st/wordDict.txt', b'<unk>\nbos\neos\nThe\nold\nship\nleft\n.\n', conll05, 'WORDDICT_MD5')
    put('conll05st/verbDict.txt', b'leave\nsink\nrest\n', conll05, 'VERBDICT_MD5')
    put('conll05st/targetDict.txt', b'B-A0\nB-A1\nB-V\nI-A0\nI-A1\nI-V\nO\n', conll05, 'TRGDICT_MD5')


def test_conll05(put):
    put_conll05(put)
    labels = conll05.get_dict()[2]
    assert labels == {'B-A0': 0, 'I-A0': 1, 'B-A1': 2, 'I-A1': 3, 'B-V': 4, 'I-V': 5, 'O': 6}
    samples = list(conll05.test()())
    assert samples[0] == ([3, 4, 5, 6, 7], [4] * 5, [5] * 5, [6] * 5, [7] * 5, [2] * 5, [0] * 5,
                          [0, 1, 1, 1, 1], [0, 1, 1, 4, 6])
    assert [sample[8] for sample in samples[1:]] == [[2, 4, 6, 6], [2, 6, 6, 4]]
    assert [sample[6] for sample in samples[1:]] == [[1] * 4, [2] * 4]
    assert samples[1][1] == [1] * 4  # two words before the second: bos


def test_wmt14(put):
    dictionary = b'<s>\n<e>\n<unk>\na\nb\nc\n'
    put('wmt14/wmt14.tgz',
        archive({'wmt14/train/train': b'a b\tb a a\nno tab\n' + b'a ' * 90 + b'\ta\n',
                 'wmt14/test/test': b'c z\tc\n', 'wmt14/src.dict': dictionary, 'wmt14/trg.dict': dictionary}),
        wmt14, 'MD5_TRAIN')
    assert list(wmt14.train(6)()) == [([0, 3, 4, 1], [0, 4, 3, 3], [4, 3, 3, 1])]
    assert list(wmt14.test(5)()) == [([0, 2, 2, 1], [0, 2], [2, 1])]
    assert wmt14.get_dict(4)[0] == {0: '<s>', 1: '<e>', 2: '<unk>', 3: 'a'}
    assert wmt14.get_dict(4, reverse=False)[1]['a'] == 3


def test_wmt16(put, tmp_path):
    put('wmt16/wmt16.tar.gz',
        archive({'wmt16/train': 'a a b\tä\n'.encode(), 'wmt16/test': 'b c\tä x\n'.encode(), 'wmt16/val': b''}),
        wmt16, 'DATA_MD5')
    assert list(wmt16.test(5, 10)()) == [([0, 4, 2, 1], [0, 3, 2], [3, 2, 1])]
    assert list(wmt16.train(10, 4, src_lang='de')()) == [([0, 3, 1], [0, 3, 3, 2], [3, 3, 2, 1])]
    assert list(wmt16.validation(5, 10)()) == []
    assert wmt16.get_dict('en', 5, reverse=True) == {0: '<s>', 1: '<e>', 2: '<unk>', 3: 'a', 4: 'b'}
    assert (tmp_path / 'wmt16' / 'en_5.dict').read_text() == '<s>\n<e>\n<unk>\na\nb\n'
    with pytest.raises(ValueError, match="'fr'"):
        wmt16.train(5, 5, src_lang='fr')


def test_flowers(put):
    scipy_io = pytest.importorskip('scipy.io')
    pytest.importorskip('PIL')

    def matrix(contents):
        out = io.BytesIO()
        scipy_io.savemat(out, contents)
        return out.getvalue()
    picture = encoded(np.full((30, 40, 3), (10, 20, 30), 'uint8'), 'PNG')
    put('flowers/102flowers.tgz', archive({f'jpg/image_{i:05d}.jpg': picture for i in (1, 2, 3)}), flowers, 'DATA_MD5')
    put('flowers/imagelabels.mat', matrix({'labels': np.array([[7, 8, 9]])}), flowers, 'LABEL_MD5')
    put('flowers/setid.mat', matrix({'tstid': np.array([[1, 3]]), 'trnid': np.array([[2]]), 'valid': np.array([[2]])}),
        flowers, 'SETID_MD5')
    samples = list(flowers.train()())
    assert sorted(label for _, label in samples) == [6, 8]
    pixels = samples[0][0].reshape(3, 224, 224)  # blue, green, red
    np.testing.assert_allclose(pixels[:, 5, 5], [30 - 103.94, 20 - 116.78, 10 - 123.68], rtol=1e-5)
    assert [label for _, label in flowers.test(use_xmap=False)()] == [7]


def test_voc2012(put):
    pytest.importorskip('PIL')
    root = 'VOCdevkit/VOC2012/'
    put('voc2012/VOCtrainval_11-May-2012.tar',
        archive({root + 'ImageSets/Segmentation/val.txt': b'x\n',
                 root + 'JPEGImages/x.jpg': encoded(np.zeros((2, 4, 3), 'uint8'), 'JPEG'),
                 root + 'SegmentationClass/x.png': encoded(np.full((2, 4), 15, 'uint8'), 'PNG')}), voc2012, 'VOC_MD5')
    (picture, classes), = voc2012.val()()
    assert picture.shape == (2, 4, 3) and classes.tolist() == [[15] * 4] * 2
    with pytest.raises(ValueError, match='trainval.txt'):
        next(voc2012.train()())


def test_sentiment(put):
    put('corpora/movie_reviews.zip',
        zipped({'movie_reviews/neg/a.txt': 'bad , bad film', 'movie_reviews/pos/b.txt': 'good film !',
                'movie_reviews/README': 'read me'}), sentiment, 'MD5')
    words = sentiment.get_word_dict()
    assert [word for word, _ in words[:2]] == ['bad', 'film'] and [i for _, i in words] == list(range(5))
    ids = dict(words)
    assert list(sentiment.train()) == [([ids[w] for w in ('bad', ',', 'bad', 'film')], 0),
                                       ([ids[w] for w in ('good', 'film', '!')], 1)]
    assert list(sentiment.test()) == []


def test_images_are_resized_by_cubic_convolution():
    ramp = np.tile(np.arange(8.0), (8, 1))
    half = image.resize_short(ramp, 4)
    assert half.shape == (4, 4)
    np.testing.assert_allclose(half[0, 1:3], [2.5, 4.5])  # a straight line stays one
    np.testing.assert_array_equal(image.resize_short(ramp, 8), ramp)
    assert image.resize_short(np.zeros((6, 3, 3), 'uint8'), 4).shape == (8, 4, 3)


def test_simple_transform_crops_and_takes_the_mean_off():
    picture = np.arange(4 * 4 * 3, dtype='uint8').reshape(4, 4, 3)
    out = image.simple_transform(picture, 4, 2, is_train=False, mean=[1, 2, 3])
    np.testing.assert_array_equal(out, picture[1:3, 1:3].transpose(2, 0, 1) - np.array([1., 2., 3.])[:, None, None])
    with pytest.raises(ValueError, match='4 x 4 cannot be cropped to 5'):
        image.center_crop(picture, 5)


def test_split_and_cluster_files_reader(tmp_path):
    common.split(lambda: iter(range(10)), 3, str(tmp_path / '%05d.pickle'))
    first = common.cluster_files_reader(str(tmp_path / '*.pickle'), 2, 0)
    second = common.cluster_files_reader(str(tmp_path / '*.pickle'), 2, 1)
    assert list(first()) == [0, 1, 2, 6, 7, 8] and list(second()) == [3, 4, 5, 9]


RANKED = b'''0 qid:10 1:0.0 2:0.5 #docid = A inc = 1
2 qid:10 1:0.25 2:NULL #docid = B
1 qid:10 1:0.75 2:0.5 #docid = C
0 qid:11 1:0.1 2:0.2 #docid = D
1 qid:12 1:1.0 2:2.0
1 qid:12 1:3.0 2:4.0
'''


@pytest.fixture
def ranked(put, tmp_path):
    (tmp_path / 'MQ2007' / 'MQ2007').mkdir(parents=True)
    put('MQ2007/MQ2007/Fold1/train.txt', RANKED)


def test_mq2007_has_documents_of_queries_the_most_relevant_first(ranked):
    first, second, third = mq2007.load_from_text('MQ2007/Fold1/train.txt', fill_missing=-7)
    assert [(len(each), each.query_id) for each in (first, second, third)] == [(3, 10), (1, 11), (2, 12)]
    assert first[1].feature_vector == [0.25, -7] and first[0].description == 'docid = A inc = 1'
    assert str(first[0]) == '0 10 0.0 0.5'
    assert [(query, score) for query, score, _ in mq2007.gen_plain_txt(first)] == [(10, 2), (10, 1), (10, 0)]
    pairs = [(one.tolist(), better[0], worse[0]) for one, better, worse in mq2007.gen_pair(first)]
    assert pairs == [([1], 0.25, 0.75), ([1], 0.25, 0.0), ([1], 0.75, 0.0)]
    assert [pair[1][0] for pair in mq2007.gen_pair(first, 'neighbour')] == [0.25, 0.75]
    (scores, features), = mq2007.gen_list(first)
    assert scores.tolist() == [[2], [1], [0]] and features.shape == (3, 2)


def test_mq2007_leaves_out_queries_without_a_relevant_document(ranked):
    assert len(list(mq2007.train())) == 3  # pairs; documents as relevant as each other are none
    assert [scores.tolist() for scores, _ in mq2007.train(format='listwise')] == [[[2], [1], [0]], [[1], [1]]]
    assert [score for score, _ in mq2007.train(format='pointwise')] == [2, 1]
    assert [query for query, _, _ in mq2007.train(format='plain_txt')] == [10, 12]


def test_mq2007_says_what_is_wrong(ranked, put, tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="format is 'pair'"):
        next(mq2007.train(format='pair'))
    with pytest.raises(ValueError, match='partial_order'):
        next(mq2007.gen_pair(mq2007.QueryList(), 'half'))
    with pytest.raises(TypeError, match='a QueryList is due'):
        next(mq2007.gen_list([1]))
    (tmp_path / 'broken.txt').write_bytes(b'1 qid:3 1:0.5\n1 query:3 1:0.5\n')
    with pytest.raises(ValueError, match='line 2 is no document'):
        mq2007.load_from_text(str(tmp_path / 'broken.txt'))
    (tmp_path / 'MQ2007/MQ2007/Fold1/train.txt').unlink()
    with pytest.raises(RuntimeError, match='cannot be fetched'):
        list(mq2007.train())
    put('MQ2007/' + mq2007.URL.split('/')[-1], b'Rar!', mq2007, 'MD5')
    monkeypatch.setattr(mq2007.shutil, 'which', lambda name: None)
    with pytest.raises(RuntimeError, match='none of unrar, 7z, bsdtar is installed: unpack it so that'):
        list(mq2007.train())
    (tmp_path / 'tool').write_text('#!/bin/sh\nmkdir -p MQ2007/Fold1; echo "1 qid:3 1:0.5" >MQ2007/Fold1/train.txt\n')
    (tmp_path / 'tool').chmod(0o755)
    monkeypatch.setattr(mq2007.shutil, 'which', lambda name: name)
    monkeypatch.setattr(mq2007, '_UNPACK', [(str(tmp_path / 'tool'),)])
    assert [score for score, _ in mq2007.train(format='pointwise')] == [1]
