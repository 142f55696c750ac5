"""Handwritten digits that nobody wrote: a generator and a discriminator, trained in turns.

    gan.py [--seed N] [--picture FILE]

Teaches two nets that work against each other. The discriminator learns to tell real digits from made ones,
the generator learns to make digits that pass for real. Two programs share the parameters of both by their
names, and each has an optimizer that changes the parameters of one.
Data: 1,797 real digits of 8 x 8 pixels, brought along by scikit-learn; 360 of them are held out.
Quality over seeds 1 to 10: Frechet's distance between 360 made and the held-out digits, each lot described
by its mean and its covariance (360 other real digits: 0.83; noise that has the mean and the deviation of
every single pixel right: 2.72):
    distance at most 1.6 (1.27 to 1.45)
"""
import argparse
import tempfile

import numpy as np
import paddle.fluid as fluid

import datasets

STEPS = 3000
BATCH = 64
NOISE = 16
# Both nets take their names from a count of their own, so a parameter has the same name in every program.
# So have all variables: a net is built once in a program, not once for real digits and again for made ones.


def generator(noise):
    """Digits from noise: pixels from -1 to 1."""
    with fluid.unique_name.guard('generator_'):
        hidden = fluid.layers.batch_norm(fluid.layers.fc(noise, size=64), act='relu')
        hidden = fluid.layers.batch_norm(fluid.layers.fc(hidden, size=128), act='relu')
        return fluid.layers.fc(hidden, size=64, act='tanh')


def discriminator(pixels):
    """How real digits look: above 0 for real, below 0 for made."""
    with fluid.unique_name.guard('discriminator_'):
        hidden = fluid.layers.leaky_relu(fluid.layers.fc(pixels, size=128), alpha=0.2)
        hidden = fluid.layers.leaky_relu(fluid.layers.fc(hidden, size=64), alpha=0.2)
        return fluid.layers.fc(hidden, size=1)


def always(value, rows):
    """A column with one value, as long as rows."""
    return fluid.layers.fill_constant_batch_size_like(rows, [-1, 1], 'float32', value)


def judge(pixels, truth):
    """The loss of a discriminator that should say `truth` of these."""
    return fluid.layers.mean(fluid.layers.sigmoid_cross_entropy_with_logits(discriminator(pixels), truth))


def minimize(loss, net):
    """Adam for the parameters of one net."""
    own = [p for p in loss.block.program.all_parameters() if p.name.startswith(net)]
    fluid.optimizer.Adam(learning_rate=0.001, beta1=0.5).minimize(loss, parameter_list=own)


def train(folder, digits, thoughts, seed):
    """Trains both and saves the generator; returns what it makes of `thoughts`."""
    startup, judging, making = fluid.Program(), fluid.Program(), fluid.Program()
    startup.random_seed = seed
    with fluid.program_guard(judging, startup):
        real = fluid.data('real', [None, 64], 'float32')
        made = generator(fluid.data('noise', [None, NOISE], 'float32'))
        made.stop_gradient = True  # the discriminator's turn: the generator stays as it is
        # 0.9 and not 1 for real digits: a discriminator that is not quite sure is a better teacher.
        judge_loss = judge(fluid.layers.concat([real, made]),
                           fluid.layers.concat([always(0.9, real), always(0.0, made)]))
        minimize(judge_loss, 'discriminator')
    with fluid.program_guard(making, startup):
        made = generator(fluid.data('noise', [None, NOISE], 'float32'))
        show = making.clone(for_test=True)
        maker_loss = judge(made, always(1.0, made))
        minimize(maker_loss, 'generator')

    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(startup)
    chance = np.random.RandomState(seed)
    losses = []
    for step in range(1, STEPS + 1):
        batch = digits[chance.randint(len(digits), size=BATCH)]
        told, = exe.run(judging, feed={'real': batch, 'noise': noise(BATCH, chance)},
                        fetch_list=[judge_loss])
        fooled, = exe.run(making, feed={'noise': noise(BATCH, chance)}, fetch_list=[maker_loss])
        losses.append([told.item(), fooled.item()])
        if step % 500 == 0:
            print('step %4d: loss of the discriminator %.3f, of the generator %.3f' %
                  ((step,) + tuple(np.mean(losses[-500:], axis=0))))
    fluid.io.save_inference_model(folder, ['noise'], [made], exe, main_program=making)
    return exe.run(show, feed={'noise': thoughts}, fetch_list=[made])[0]


def noise(count, chance):
    return chance.normal(size=(count, NOISE)).astype('float32')


def make(folder, noise):
    """Digits by the saved generator."""
    exe = fluid.Executor(fluid.CPUPlace())
    with fluid.scope_guard(fluid.Scope()):
        model, feeds, fetches = fluid.io.load_inference_model(folder, exe)
        return exe.run(model, feed={feeds[0]: noise}, fetch_list=fetches)[0]


def distance(these, those):
    """Frechet's distance of two normal distributions with the means and covariances of the rows."""
    gap = these.mean(axis=0) - those.mean(axis=0)
    spread, other = np.cov(these, rowvar=False), np.cov(those, rowvar=False)
    # The trace of the root of a product is the sum of the roots of its eigenvalues.
    shared = np.sqrt(np.maximum(np.linalg.eigvals(spread @ other).real, 0)).sum()
    return np.sqrt(max(gap @ gap + np.trace(spread) + np.trace(other) - 2 * shared, 0))


def nearest_labels(made, digits, labels):
    """For each made digit the label of the real one it looks most like."""
    squares = ((made[:, None] - digits[None]) ** 2).sum(axis=2)
    return labels[squares.argmin(axis=1), 0]


def draw(made, path):
    """The first hundred, as a picture."""
    import matplotlib
    matplotlib.use('Agg')
    from matplotlib import pyplot
    rows = made[:100].reshape(10, 10, 8, 8).transpose(0, 2, 1, 3).reshape(80, 80)
    pyplot.imsave(path, rows, cmap='gray_r')


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--picture', metavar='FILE', help='draw a hundred digits there (needs matplotlib)')
    args = parser.parse_args()
    (digits, labels), (held_out, _) = datasets.digits()
    chance = np.random.RandomState(args.seed)
    with tempfile.TemporaryDirectory() as folder:
        thoughts = noise(len(held_out), chance)
        trained = train(folder, digits, thoughts, args.seed)
        made = make(folder, thoughts)
    assert np.array_equal(made, trained)
    print('the loaded model answers as the trained one')
    if args.picture:
        draw(made, args.picture)
    for row in made[:6].reshape(6, 8, 8).transpose(1, 0, 2):
        print('  '.join(''.join(' .:*#'[int(2 * ink + 2)] for ink in digit) for digit in row))
    print('they look like 0 to 9 this often: %s' %
          ' '.join(map(str, np.bincount(nearest_labels(made, digits, labels), minlength=10))))
    blurred = digits.mean(axis=0) + digits.std(axis=0) * chance.normal(size=held_out.shape)
    print('other real digits: distance %.2f' % distance(digits[:len(held_out)], held_out))
    print('noise: distance %.2f' % distance(blurred, held_out))
    print('held-out distance %.2f' % distance(made, held_out))


if __name__ == '__main__':
    main()
