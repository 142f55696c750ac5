"""CIFAR: 32 x 32 colour images as 3072 numbers from 0 to 1, and their labels, of 10 or 100 classes."""
import pickle
import tarfile

from . import common

__all__ = ['train100', 'test100', 'train10', 'test10']

URL_PREFIX = 'https://dataset.bj.bcebos.com/cifar/'
CIFAR10_URL = URL_PREFIX + 'cifar-10-python.tar.gz'
CIFAR10_MD5 = 'c58f30108f718f92721af3b95e74349a'
CIFAR100_URL = URL_PREFIX + 'cifar-100-python.tar.gz'
CIFAR100_MD5 = 'eb9058c3a382ffc7106e4002c42a8d85'

_ALLOWED = {('numpy.core.multiarray', '_reconstruct'), ('numpy._core.multiarray', '_reconstruct'),
            ('numpy', 'ndarray'), ('numpy', 'dtype'), ('_codecs', 'encode')}


class _Arrays(pickle.Unpickler):
    """Takes arrays, lists and texts; a pickle that asks for anything else is refused."""

    def find_class(self, module, name):
        if (module, name) not in _ALLOWED:
            raise pickle.UnpicklingError(f'it holds a {module}.{name}')
        return super().find_class(module, name)


def _batches(path, part):
    with tarfile.open(path) as archive:
        names = sorted(name for name in archive.getnames() if part in name.rpartition('/')[2])
        if not names:
            raise common.unreadable(path, f'it has no {part}')
        for name in names:
            try:
                yield _Arrays(archive.extractfile(name), encoding='bytes').load()
            except pickle.UnpicklingError as error:
                raise common.unreadable(path, f'{name}: {error}') from error


def reader_creator(filename, sub_name, cycle=False):
    def reader():
        while True:
            for batch in _batches(filename, sub_name):
                labels = batch.get(b'labels', batch.get(b'fine_labels'))
                if labels is None or len(labels) != len(batch[b'data']):
                    raise common.unreadable(filename, 'its labels do not match its images')
                for image, label in zip(batch[b'data'], labels):
                    yield (image / 255.0).astype('float32'), int(label)
            if not cycle:
                return
    return reader


def _archive10():
    return common.download(CIFAR10_URL, 'cifar', CIFAR10_MD5)


def _archive100():
    return common.download(CIFAR100_URL, 'cifar', CIFAR100_MD5)


def train10(cycle=False):
    return reader_creator(_archive10(), 'data_batch', cycle)


def test10(cycle=False):
    return reader_creator(_archive10(), 'test_batch', cycle)


def train100():
    return reader_creator(_archive100(), 'train')


def test100():
    return reader_creator(_archive100(), 'test')


def fetch():
    _archive10()
    _archive100()
