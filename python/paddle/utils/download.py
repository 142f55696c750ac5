"""Files of pretrained weights: fetched once, kept under the data sets' folder."""
import os

from ..dataset.common import download

__all__ = ['get_weights_path_from_url']


def get_weights_path_from_url(url, md5sum=None):
    """Where the file lies on this machine; it is fetched when it is not there, or when its sum is another."""
    return os.path.abspath(download(url, 'weights', md5sum))
