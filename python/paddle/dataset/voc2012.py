"""PASCAL VOC 2012: images and the class of each of their pixels, both as arrays of bytes."""
import io
import tarfile

import numpy

from . import common

__all__ = ['train', 'test', 'val']

VOC_URL = 'http://host.robots.ox.ac.uk/pascal/VOC/voc2012/VOCtrainval_11-May-2012.tar'
VOC_MD5 = '6cd6e144f989b92b3379bac3b3de84fd'
SET_FILE = 'VOCdevkit/VOC2012/ImageSets/Segmentation/{}.txt'
DATA_FILE = 'VOCdevkit/VOC2012/JPEGImages/{}.jpg'
LABEL_FILE = 'VOCdevkit/VOC2012/SegmentationClass/{}.png'
CACHE_DIR = 'voc2012'


def reader_creator(filename, sub_name):
    def reader():
        from PIL import Image

        with tarfile.open(filename) as archive:
            members = {member.name: member for member in archive}

            def contents(name):
                if name not in members:
                    raise common.unreadable(filename, f'it has no {name}')
                return archive.extractfile(members[name]).read()

            for name in contents(SET_FILE.format(sub_name)).decode().split():
                yield tuple(numpy.array(Image.open(io.BytesIO(contents(file.format(name)))))
                            for file in (DATA_FILE, LABEL_FILE))
    return reader


def _reader(sub_name):
    return reader_creator(common.download(VOC_URL, CACHE_DIR, VOC_MD5), sub_name)


def train():
    """All 2913 images, height x width x colour, with their labels."""
    return _reader('trainval')


def test():
    """The 1464 images of the list train."""
    return _reader('train')


def val():
    """The 1449 images of the list val."""
    return _reader('val')


def fetch():
    common.download(VOC_URL, CACHE_DIR, VOC_MD5)
