"""Images as arrays of height x width x (blue, green, red), and what is done to them before training."""
import io

import numpy

__all__ = ['load_image_bytes', 'load_image', 'resize_short', 'to_chw', 'center_crop', 'random_crop',
           'left_right_flip', 'simple_transform', 'load_and_transform']


def load_image_bytes(bytes, is_color=True):
    """The image of an encoded file's bytes; grey ones are height x width."""
    try:
        from PIL import Image
    except ImportError as error:
        raise ImportError('images are decoded by Pillow, which is not there: install python3-pil') from error
    image = Image.open(io.BytesIO(bytes))
    if not is_color:
        return numpy.array(image.convert('L'))
    return numpy.array(image.convert('RGB'))[:, :, ::-1]


def load_image(file, is_color=True):
    with open(file, 'rb') as source:
        return load_image_bytes(source.read(), is_color)


def _resized(im, size, axis):
    """Cubic convolution (a = -0.75) of the four nearest pixels along one axis; edges are repeated."""
    length = im.shape[axis]
    place = (numpy.arange(size) + 0.5) * length / size - 0.5
    first = numpy.floor(place).astype(int)
    t = place - first
    a, total = -0.75, 0
    for offset in (-1, 0, 1, 2):
        d = numpy.abs(t - offset)
        near = ((a + 2) * d - (a + 3)) * d * d + 1
        far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
        weight = numpy.where(d <= 1, near, far)
        shape = [1] * im.ndim
        shape[axis] = size
        total = total + im.take(numpy.clip(first + offset, 0, length - 1), axis) * weight.reshape(shape)
    return total


def resize_short(im, size):
    """The shorter edge becomes size; the other keeps the ratio."""
    height, width = im.shape[:2]
    new = (size * height // width, size) if height > width else (size, size * width // height)
    resized = _resized(_resized(im.astype('float64'), new[0], 0), new[1], 1)
    if numpy.issubdtype(im.dtype, numpy.integer):
        limits = numpy.iinfo(im.dtype)
        resized = numpy.clip(numpy.rint(resized), limits.min, limits.max)
    return resized.astype(im.dtype)


def to_chw(im, order=(2, 0, 1)):
    """Colour first."""
    assert im.ndim == len(order), f'the image has {im.ndim} dimensions, order {len(order)}'
    return im.transpose(order)


def _cropped(im, size, top, left):
    if min(im.shape[:2]) < size:
        raise ValueError(f'an image of {im.shape[0]} x {im.shape[1]} cannot be cropped to {size}')
    return im[top:top + size, left:left + size]


def center_crop(im, size, is_color=True):
    """The square in the middle."""
    return _cropped(im, size, (im.shape[0] - size) // 2, (im.shape[1] - size) // 2)


def random_crop(im, size, is_color=True):
    """A square anywhere."""
    return _cropped(im, size, numpy.random.randint(max(im.shape[0] - size, 0) + 1),
                    numpy.random.randint(max(im.shape[1] - size, 0) + 1))


def left_right_flip(im, is_color=True):
    """Mirrored: left is right."""
    return numpy.flip(im, axis=1)


def _cut_for_training(im, size, is_color):
    """A square anywhere, mirrored every other time."""
    square = random_crop(im, size, is_color)
    return square if numpy.random.randint(2) else left_right_flip(square, is_color)


def simple_transform(im, resize_size, crop_size, is_train, is_color=True, mean=None):
    """Resized, cropped (for training anywhere, and mirrored half of the time), colour first, less mean."""
    cut = _cut_for_training if is_train else center_crop
    square = cut(resize_short(im, resize_size), crop_size, is_color)
    pixels = (square if square.ndim != 3 else to_chw(square)).astype('float32')
    if mean is None:
        return pixels
    mean = numpy.asarray(mean, 'float32')
    if is_color and mean.ndim == 1:  # one number for each colour
        mean = mean.reshape(-1, 1, 1)
    pixels -= mean
    return pixels


def load_and_transform(filename, resize_size, crop_size, is_train, is_color=True, mean=None):
    """simple_transform of the image in a file."""
    image = load_image(filename, is_color)
    return simple_transform(image, resize_size, crop_size, is_train, is_color, mean)
