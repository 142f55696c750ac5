"""What the detectors here look at and are measured by: made pictures with shapes in them, and what was found of those."""
import os

import numpy as np
import paddle.fluid as fluid

SIDE = 48  # pixels
KINDS = ['background', 'square', 'disc', 'triangle']


class Scene:
    """A picture [3, SIDE, SIDE] and its objects: corners [n, 4] in pixels, kinds [n] from 1 up, outlines."""

    def __init__(self, picture, boxes, kinds, outlines):
        self.picture, self.boxes, self.kinds, self.outlines = picture, boxes, kinds, outlines


def outline(box, kind):
    """Points around the shape that fills a box."""
    left, top, right, bottom = box
    if kind == 1:
        return np.float32([[left, top], [right, top], [right, bottom], [left, bottom]])
    if kind == 3:
        return np.float32([[left, bottom], [(left + right) / 2, top], [right, bottom]])
    turn = np.arange(16) * np.pi / 8
    middle, half = np.array([left + right, top + bottom]) / 2, np.array([right - left, bottom - top]) / 2
    return np.float32(middle + half * np.stack([np.cos(turn), np.sin(turn)], axis=1))


def inside(points):
    """Which pixels' middles lie in a convex outline: [SIDE, SIDE]."""
    y, x = np.mgrid[:SIDE, :SIDE] + 0.5
    steps = np.roll(points, -1, axis=0) - points
    sides = [dx * (y - py) - dy * (x - px) for (px, py), (dx, dy) in zip(points, steps)]
    return np.all(np.array(sides) >= 0, axis=0) | np.all(np.array(sides) <= 0, axis=0)


def ground(chance):
    """Noise over a slope of colour."""
    slope = chance.uniform(-0.3, 0.3, (3, 2)) @ (np.mgrid[:SIDE, :SIDE].reshape(2, -1) / SIDE - 0.5)
    return slope.reshape(3, SIDE, SIDE) + 0.1 * chance.normal(size=(3, SIDE, SIDE))


def colour(chance):
    """Of any hue, and far from the ground's grey."""
    return chance.choice([-1, 1]) * chance.uniform(0.5, 1, 3)


def make(count, seed):
    """count scenes of one to three shapes; the later ones may not hide more than a little of the others."""
    chance = np.random.RandomState(seed)
    scenes = []
    while len(scenes) < count:
        picture, boxes, kinds = ground(chance), [], []
        for _ in range(chance.randint(1, 4)):
            width, height = chance.randint(11, 23, 2)
            left, top = chance.randint(0, SIDE - width + 1), chance.randint(0, SIDE - height + 1)
            box = np.float32([left, top, left + width, top + height])
            if boxes and overlaps(box[None], np.stack(boxes)).max() > 0.05:
                continue
            boxes.append(box)
            kinds.append(chance.randint(1, len(KINDS)))
            picture[:, inside(outline(box, kinds[-1]))] = colour(chance)[:, None]
        outlines = [outline(box, kind) for box, kind in zip(boxes, kinds)]
        scenes.append(Scene(picture.astype('float32'), np.stack(boxes), np.array(kinds), outlines))
    return scenes


def overlaps(these, those):
    """[these, those]: what two boxes share, in parts of what they cover together."""
    shared = np.maximum(np.minimum(these[:, None, 2:], those[:, 2:]) - np.maximum(these[:, None, :2], those[:, :2]), 0)
    shared = shared.prod(axis=2)
    area = [(boxes[:, 2:] - boxes[:, :2]).prod(axis=1) for boxes in (these, those)]
    return shared / (area[0][:, None] + area[1] - shared)


def batches(scenes, size, steps, seed):
    """Random batches, `steps` of them."""
    chance = np.random.RandomState(seed)
    for _ in range(steps):
        yield [scenes[i] for i in chance.randint(len(scenes), size=size)]


# ---- feeds and results whose rows belong to pictures

def pictures(scenes):
    return np.stack([scene.picture for scene in scenes])


def sequences(arrays):
    """One array for each picture, as a variable with lod_level=1 is fed."""
    return fluid.create_lod_tensor(np.concatenate(arrays), [[len(array) for array in arrays]], fluid.CPUPlace())


def truths(scenes):
    """What two-stage detectors are told, with pixels that count from 0 to SIDE - 1."""
    return {'picture': pictures(scenes),
            'info': np.float32([[SIDE, SIDE, 1]] * len(scenes)),
            'boxes': sequences([scene.boxes - np.float32([0, 0, 1, 1]) for scene in scenes]),
            'kinds': sequences([np.int32(scene.kinds)[:, None] for scene in scenes]),
            'crowd': sequences([np.zeros((len(scene.kinds), 1), 'int32') for scene in scenes])}


def by_picture(result):
    """The rows [kind, score, left, top, right, bottom] of each picture; none where only -1 was said."""
    rows, ends = np.array(result), np.cumsum([0] + result.recursive_sequence_lengths()[0])
    return [rows[at:end] if rows.shape[1] > 1 and (end == at or rows[at, 0] >= 0) else np.zeros((0, 6), 'float32')
            for at, end in zip(ends, ends[1:])]


def mean_average_precision(found, scenes, enough=0.5):
    """Over kinds: the mean share of right ones among the surest, where each true one is found."""
    precisions = []
    for kind in range(1, len(KINDS)):
        answers = []  # (score, whether it is right)
        for rows, scene in zip(found, scenes):
            wanted = scene.boxes[scene.kinds == kind]
            taken = set()
            for row in sorted(rows[rows[:, 0] == kind], key=lambda row: -row[1]):
                shares = overlaps(row[None, 2:], wanted)[0] if len(wanted) else np.zeros(1)
                best = shares.argmax()
                right = shares[best] > enough and best not in taken
                taken |= {best} if right else set()
                answers.append((row[1], right))
        right = np.array([right for _, right in sorted(answers, key=lambda pair: -pair[0])], bool)
        places = np.flatnonzero(right) + 1
        count = sum((scene.kinds == kind).sum() for scene in scenes)
        precisions.append((np.arange(1, len(places) + 1) / places).sum() / count)
    return np.mean(precisions)


def deploy(folder, feeds, fetches, exe, program, feed, wanted):
    """Saves what detects, loads it as a stranger would, and compares its answers; gives them."""
    folder = os.path.join(folder, 'deployed')
    fluid.io.save_inference_model(folder, feeds, fetches, exe, program)
    with fluid.scope_guard(fluid.Scope()):
        model, names, outs = fluid.io.load_inference_model(folder, exe)
        found = exe.run(model, feed={name: feed[name] for name in names}, fetch_list=outs, return_numpy=False)
    for this, that in zip(found, wanted):
        # Where batch_norm has become part of a convolution, numbers are rounded otherwise.
        assert np.allclose(np.array(this), np.array(that), rtol=1e-4, atol=1e-4)
    print('the loaded model answers as the trained one')
    return found
