"""Real data for the examples: what scikit-learn brings along, cut once into a training and a held-out part.

Each function returns ((inputs, targets), (held_out_inputs, held_out_targets)) as numpy arrays.
"""
import numpy as np
from sklearn import datasets as bundled


def _split(inputs, targets, held_out):
    """Which samples are held out is the same in every run: results stay comparable between seeds."""
    order = np.random.RandomState(0).permutation(len(inputs))
    kept, apart = order[held_out:], order[:held_out]
    return (inputs[kept], targets[kept]), (inputs[apart], targets[apart])


def diabetes():
    """442 patients: ten measurements, and a number that says how far the illness had gone a year later."""
    table = bundled.load_diabetes(scaled=False)
    return _split(table.data.astype('float32'), table.target.astype('float32').reshape(-1, 1), held_out=90)


def digits():
    """1,797 handwritten digits: 64 pixels from -1 (paper) to 1 (ink), and which digit it is."""
    scans = bundled.load_digits()
    return _split((scans.data / 8 - 1).astype('float32'), scans.target.astype('int64').reshape(-1, 1),
                  held_out=360)


def digits_on_photos():
    """The same digits, each in a colour of its own over a piece of a photograph: [3, 16, 16], from -1 to 1.

    Digits and the two photographs (a temple, a flower) are real, putting them together is our doing.
    """
    photos = bundled.load_sample_images().images
    chance = np.random.RandomState(0)

    def paint(pixels):
        photo = photos[chance.randint(len(photos))]
        top, left = [chance.randint(extent - 16) for extent in photo.shape[:2]]
        ground = photo[top:top + 16, left:left + 16] / 127.5 - 1
        ink = pixels.reshape(8, 8).repeat(2, axis=0).repeat(2, axis=1)[:, :, None] / 2 + 0.5
        # Ink is seen on any ground: bright where the ground is dark, dark where it is bright.
        colour = chance.uniform(0.2, 1, 3) * (1 if ground.mean() < 0 else -1)
        return (ground * (1 - ink) + colour * ink).transpose(2, 0, 1)

    return [(np.stack([paint(pixels) for pixels in scans]).astype('float32'), labels)
            for scans, labels in digits()]
