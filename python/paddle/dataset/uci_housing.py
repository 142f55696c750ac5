"""UCI housing: 13 features, less their mean and over their range, and a price."""
import numpy

from . import common

__all__ = ['train', 'test']

URL = 'http://paddlemodels.bj.bcebos.com/uci_housing/housing.data'
MD5 = 'd4accdce7a25600298819f8e28e8d593'

feature_names = ['CRIM', 'ZN', 'INDUS', 'CHAS', 'NOX', 'RM', 'AGE', 'DIS', 'RAD', 'TAX', 'PTRATIO',
                 'B', 'LSTAT', 'convert']

UCI_TRAIN_DATA = None
UCI_TEST_DATA = None


def load_data(filename, feature_num=14, ratio=0.8):
    """Fills UCI_TRAIN_DATA with the first ratio of the rows and UCI_TEST_DATA with the others."""
    global UCI_TRAIN_DATA, UCI_TEST_DATA
    if UCI_TRAIN_DATA is not None and UCI_TEST_DATA is not None:
        return
    with open(filename) as file:
        try:
            data = numpy.array([float(word) for word in file.read().split()])
        except ValueError as error:
            raise common.unreadable(filename, error) from error
    if data.size == 0 or data.size % feature_num:
        raise common.unreadable(filename, f'it has {data.size} numbers, not rows of {feature_num}')
    data = data.reshape(-1, feature_num)
    features = data[:, :-1]
    data[:, :-1] = (features - features.mean(0)) / (features.max(0) - features.min(0))
    first = int(len(data) * ratio)
    UCI_TRAIN_DATA, UCI_TEST_DATA = data[:first], data[first:]


def _reader(rows):
    def reader():
        for row in rows:
            yield row[:-1], row[-1:]
    return reader


def train():
    """Samples (features, price) of the first 80 percent."""
    load_data(common.download(URL, 'uci_housing', MD5))
    return _reader(UCI_TRAIN_DATA)


def test():
    """Samples (features, price) of the last 20 percent."""
    load_data(common.download(URL, 'uci_housing', MD5))
    return _reader(UCI_TEST_DATA)


def fetch():
    common.download(URL, 'uci_housing', MD5)
