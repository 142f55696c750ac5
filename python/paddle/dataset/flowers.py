"""102 kinds of flowers: images of 3 x 224 x 224, flat, less a mean, and their labels from 0."""
import functools
import os
import tarfile

from .. import reader as _readers
from . import common, image

__all__ = ['train', 'test', 'valid']

DATA_URL = 'http://paddlemodels.bj.bcebos.com/flowers/102flowers.tgz'
LABEL_URL = 'http://paddlemodels.bj.bcebos.com/flowers/imagelabels.mat'
SETID_URL = 'http://paddlemodels.bj.bcebos.com/flowers/setid.mat'
DATA_MD5 = '52808999861908f626f3c1f4e79d11fa'
LABEL_MD5 = 'e0620be6f572b9609742df49c70aed4d'
SETID_MD5 = 'a5357ecc9cb78c4bef273ce3793fc85c'
# The set called tstid is the largest one, so it is the one to train on.
TRAIN_FLAG = 'tstid'
TEST_FLAG = 'trnid'
VALID_FLAG = 'valid'


def default_mapper(is_train, sample):
    """The encoded image of a sample becomes numbers."""
    encoded, label = sample
    pixels = image.simple_transform(image.load_image_bytes(encoded), 256, 224, is_train,
                                    mean=[103.94, 116.78, 123.68])
    return pixels.flatten().astype('float32'), label


train_mapper, test_mapper = (functools.partial(default_mapper, is_train) for is_train in (True, False))


def _matrix(path, name):
    from scipy.io import loadmat
    contents = loadmat(path)
    if name not in contents:
        raise common.unreadable(path, f'it has no {name}')
    return contents[name][0]


def reader_creator(data_file, label_file, setid_file, dataset_name, mapper, buffered_size=1024,
                   use_xmap=True, cycle=False):
    def reader():
        labels = _matrix(label_file, 'labels')
        wanted = {f'jpg/image_{i:05d}.jpg': int(labels[i - 1]) - 1
                  for i in _matrix(setid_file, dataset_name)}
        while True:
            with tarfile.open(data_file) as archive:
                for member in archive:  # in the archive's order: it is read once
                    if member.name in wanted:
                        yield archive.extractfile(member).read(), wanted[member.name]
            if not cycle:
                return

    if use_xmap:
        workers = int(os.environ.get('CPU_NUM', os.cpu_count()))
        return _readers.xmap_readers(mapper, reader, workers, buffered_size)
    return _readers.map_readers(mapper, reader)


def _files():
    return (common.download(DATA_URL, 'flowers', DATA_MD5),
            common.download(LABEL_URL, 'flowers', LABEL_MD5),
            common.download(SETID_URL, 'flowers', SETID_MD5))


def train(mapper=train_mapper, buffered_size=1024, use_xmap=True, cycle=False):
    """Samples (pixels, label), cropped at random and flipped half of the time."""
    return reader_creator(*_files(), TRAIN_FLAG, mapper, buffered_size, use_xmap, cycle)


def test(mapper=test_mapper, buffered_size=1024, use_xmap=True, cycle=False):
    return reader_creator(*_files(), TEST_FLAG, mapper, buffered_size, use_xmap, cycle)


def valid(mapper=test_mapper, buffered_size=1024, use_xmap=True):
    return reader_creator(*_files(), VALID_FLAG, mapper, buffered_size, use_xmap)


def fetch():
    _files()
