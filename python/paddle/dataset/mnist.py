"""MNIST: 28 x 28 images of digits, as 784 numbers from -1 to 1, and their labels."""
import gzip
import struct

import numpy

from . import common

__all__ = ['train', 'test']

URL_PREFIX = 'https://dataset.bj.bcebos.com/mnist/'
TEST_IMAGE_URL = URL_PREFIX + 't10k-images-idx3-ubyte.gz'
TEST_IMAGE_MD5 = '9fb629c4189551a2d022fa330f9573f3'
TEST_LABEL_URL = URL_PREFIX + 't10k-labels-idx1-ubyte.gz'
TEST_LABEL_MD5 = 'ec29112dd5afa0611ce80d1b7f02629c'
TRAIN_IMAGE_URL = URL_PREFIX + 'train-images-idx3-ubyte.gz'
TRAIN_IMAGE_MD5 = 'f68b3c2dcbeaaa9fbdd348bbdeb94873'
TRAIN_LABEL_URL = URL_PREFIX + 'train-labels-idx1-ubyte.gz'
TRAIN_LABEL_MD5 = 'd53e105ee54ea40749a09fcbcd1e9432'


def _contents(path, magic, header):
    """The header's numbers after the magic one, and the bytes that follow them."""
    try:
        with gzip.open(path, 'rb') as file:
            text = file.read()
    except (OSError, EOFError) as error:
        raise common.unreadable(path, error) from error
    size = struct.calcsize(header)
    if len(text) < size or struct.unpack('>I', text[:4])[0] != magic:
        raise common.unreadable(path, f'it does not start with {magic}')
    numbers = struct.unpack(header, text[:size])[1:]
    expected = int(numpy.prod(numbers))
    if len(text) - size != expected:
        raise common.unreadable(path, f'it has {len(text) - size} bytes of data, not {expected}')
    return numbers, numpy.frombuffer(text, 'uint8', offset=size)


def reader_creator(image_filename, label_filename, buffer_size=100):
    def reader():
        (count, rows, columns), pixels = _contents(image_filename, 2051, '>IIII')
        (labels_count,), labels = _contents(label_filename, 2049, '>II')
        if count != labels_count:
            raise ValueError(f'{image_filename} has {count} images for {labels_count} labels')
        images = pixels.reshape(count, rows * columns)
        for image, label in zip(images, labels):
            yield image.astype('float32') / 255.0 * 2.0 - 1.0, int(label)
    return reader


def train():
    """Samples (image, label) of the training set."""
    return reader_creator(common.download(TRAIN_IMAGE_URL, 'mnist', TRAIN_IMAGE_MD5),
                          common.download(TRAIN_LABEL_URL, 'mnist', TRAIN_LABEL_MD5))


def test():
    """Samples (image, label) of the test set."""
    return reader_creator(common.download(TEST_IMAGE_URL, 'mnist', TEST_IMAGE_MD5),
                          common.download(TEST_LABEL_URL, 'mnist', TEST_LABEL_MD5))


def fetch():
    train()
    test()
