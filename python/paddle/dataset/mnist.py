"""MNIST: 28 x 28 images of digits, as 784 numbers from -1 to 1, and their labels."""
import gzip
import struct

import numpy

from . import common

__all__ = ['train', 'test']


def _contents(file_name, magic, header):
    """The header's numbers after the magic one, and the bytes that follow them."""
    path = common.cached('mnist', file_name)
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
    return reader_creator('train-images-idx3-ubyte.gz', 'train-labels-idx1-ubyte.gz')


def test():
    """Samples (image, label) of the test set."""
    return reader_creator('t10k-images-idx3-ubyte.gz', 't10k-labels-idx1-ubyte.gz')


def fetch():
    """Checks that the files are there."""
    for part in ('train-images-idx3', 'train-labels-idx1', 't10k-images-idx3', 't10k-labels-idx1'):
        common.cached('mnist', part + '-ubyte.gz')
