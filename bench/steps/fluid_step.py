"""One training step through paddle.fluid; one JSON line. The models of bench/workloads.cc.

fluid_step.py NAME [--reps N] [--secs S] [--batches N] [--way WAY] [--places N] [--shards N]

The same script runs in Trireme and in the original: Python 2.7 and 3, names of fluid 1.8. The way is
the program itself, a CompiledProgram of it, or one with_data_parallel, which more than one of --places
takes anyway; --shards is Trireme's BuildStrategy.virtual_shards.
"""

import os
import sys

import numpy
import paddle
import paddle.fluid as fluid
from paddle.fluid import layers, nets, optimizer

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, 'support'))
import clock  # noqa: E402
import fluid_recurrences as recurrences  # noqa: E402
from fluid_recurrences import floats, whole  # noqa: E402

# A model appends itself to the default program, for so many batches at once; it returns the loss,
# the optimizer and what to feed.


def with_classes(logits, optimizer, feed, count, rows):
    label = layers.data('label', [1], dtype='int64')
    loss = layers.mean(layers.softmax_with_cross_entropy(logits, label))
    return loss, optimizer, dict(feed, label=whole(count, rows, 1))


def toy(batches):
    loss = layers.mean(layers.fc(layers.data('x', [1]), 10))
    return loss, optimizer.SGD(0.01), {'x': floats(10 * batches, 1)}


def fit_a_line(batches):
    x, y = layers.data('x', [13]), layers.data('y', [1])
    loss = layers.mean(layers.square_error_cost(layers.fc(x, 1), y))
    rows = 20 * batches
    return loss, optimizer.SGD(0.01), {'x': floats(rows, 13), 'y': floats(rows, 1)}


def mlp(batches):
    hidden = layers.data('x', [784])
    for _ in range(2):
        hidden = layers.fc(hidden, 200, act='relu')
    rows = 64 * batches
    return with_classes(layers.fc(hidden, 10), optimizer.SGD(0.01), {'x': floats(rows, 784)}, 10, rows)


def lenet(batches):
    x = layers.data('x', [1, 28, 28])
    for maps in (20, 50):
        x = nets.simple_img_conv_pool(x, num_filters=maps, filter_size=5, pool_size=2, pool_stride=2,
                                      act='relu')
    rows = 64 * batches
    return with_classes(layers.fc(x, 10), optimizer.Adam(0.001), {'x': floats(rows, 1, 28, 28)}, 10, rows)


def ngram(batches):
    names = ['word%d' % i for i in range(4)]
    words = [layers.embedding(layers.data(name, [1], dtype='int64'), [2073, 32], param_attr='shared_w')
             for name in names]
    hidden = layers.fc(layers.concat(words, 1), 256, act='sigmoid')
    rows = 100 * batches
    feed = dict((name, whole(2073, rows, 1)) for name in names)
    return with_classes(layers.fc(hidden, 2073), optimizer.SGD(0.01), feed, 2073, rows)


def conv_bn(x, maps, window, stride, act, bias=None):
    x = layers.conv2d(x, maps, window, stride, padding=window // 2, bias_attr=bias)
    return layers.batch_norm(x, act=act)


def vgg16(batches):
    x = layers.data('x', [3, 32, 32])
    for maps in (64, 64, 0, 128, 128, 0, 256, 256, 256, 0, 512, 512, 512, 0, 512, 512, 512, 0):
        x = conv_bn(x, maps, 3, 1, 'relu') if maps else layers.pool2d(x, 2, pool_stride=2)
    hidden = layers.batch_norm(layers.fc(x, 512), act='relu')
    rows = 32 * batches
    return with_classes(layers.fc(hidden, 10), optimizer.Momentum(0.01, 0.9),
                        {'x': floats(rows, 3, 32, 32)}, 10, rows)


def resnet50(batches):
    x = conv_bn(layers.data('x', [3, 224, 224]), 64, 7, 2, 'relu', bias=False)
    x = layers.pool2d(x, 3, pool_stride=2, pool_padding=1)
    for maps, blocks, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for i in range(blocks):
            step = stride if i == 0 else 1
            y = conv_bn(x, maps, 1, 1, 'relu', bias=False)
            y = conv_bn(y, maps, 3, step, 'relu', bias=False)
            y = conv_bn(y, 4 * maps, 1, 1, None, bias=False)
            way = conv_bn(x, 4 * maps, 1, step, None, bias=False) if i == 0 else x
            x = layers.elementwise_add(y, way, act='relu')
    x = layers.pool2d(x, pool_type='avg', global_pooling=True)
    rows = 8 * batches
    return with_classes(layers.fc(x, 1000), optimizer.Momentum(0.01, 0.9),
                        {'x': floats(rows, 3, 224, 224)}, 1000, rows)


def lstm(batches):
    """Sequences of 100 words: embedding, one LSTM, the largest of each feature over time."""
    words = layers.data('words', [1], dtype='int64', lod_level=1)
    gates = layers.fc(layers.embedding(words, [5147, 512]), 2048)
    hidden, _ = layers.dynamic_lstm(gates, 2048, use_peepholes=False)
    rows = 32 * batches
    feed = {'words': fluid.create_lod_tensor(whole(5147, 100 * rows, 1), [[100] * rows], fluid.CPUPlace())}
    return with_classes(layers.fc(layers.sequence_pool(hidden, 'max'), 2), optimizer.Adam(0.001), feed,
                        2, rows)


def encoder_layer(x, width, heads):
    def dense(given, size, act=None):
        return layers.fc(given, size, num_flatten_dims=2, act=act)

    query, key, value = (
        layers.transpose(layers.reshape(part, [0, 0, heads, width // heads]), [0, 2, 1, 3])
        for part in layers.split(dense(x, 3 * width), 3, -1))
    weights = layers.softmax(layers.matmul(query, key, transpose_y=True, alpha=(width // heads) ** -0.5))
    mixed = layers.transpose(layers.matmul(weights, value), [0, 2, 1, 3])
    attended = dense(layers.reshape(mixed, [0, 0, width]), width)
    first = layers.layer_norm(layers.elementwise_add(x, attended), begin_norm_axis=2)
    wide = dense(dense(first, 4 * width, 'relu'), width)
    return layers.layer_norm(layers.elementwise_add(first, wide), begin_norm_axis=2)


def transformer(batches):
    x = layers.data('x', [64, 512])
    for _ in range(6):
        x = encoder_layer(x, 512, 8)
    return with_classes(layers.reshape(x, [-1, 512]), optimizer.Adam(0.0001),
                        {'x': floats(8 * batches, 64, 512)}, 512, 512 * batches)


def clicks(batches):
    """Wide and deep: 26 slots share a table of a million rows; 13 dense features."""
    dense = layers.data('dense', [13])
    slots = layers.data('slots', [26, 1], dtype='int64')
    label = layers.data('label', [1])
    rows = layers.embedding(slots, [1000000, 10], is_sparse=True)
    deep = layers.concat([layers.reshape(rows, [-1, 260]), dense], 1)
    for _ in range(3):
        deep = layers.fc(deep, 400, act='relu')
    logit = layers.elementwise_add(layers.fc(deep, 1), layers.fc(dense, 1))
    loss = layers.mean(layers.sigmoid_cross_entropy_with_logits(logit, label))
    count = 512 * batches
    return loss, {'dense': floats(count, 13), 'slots': whole(1000000, count, 26, 1),
                  'label': whole(2, count, 1).astype('float32')}


def ctr_sgd(batches):
    loss, feed = clicks(batches)
    return loss, optimizer.SGD(0.01), feed


def ctr_adagrad(batches):
    loss, feed = clicks(batches)
    return loss, optimizer.Adagrad(0.01), feed


def recurrence(name, batches):
    out, feed = recurrences.MODELS[name](recurrences.BATCH * batches)
    return layers.mean(out), optimizer.SGD(0.01), feed


MODELS = dict((model.__name__, model) for model in (
    toy, fit_a_line, mlp, lenet, ngram, vgg16, resnet50, lstm, transformer, ctr_sgd, ctr_adagrad))


def main():
    parser = clock.arguments()
    parser.add_argument('--way', choices=['program', 'compiled', 'parallel'], default='program')
    parser.add_argument('--places', type=int, default=1)
    parser.add_argument('--shards', type=int, default=0)
    args = parser.parse_args()
    if args.name in recurrences.MODELS:
        loss, method, feed = recurrence(args.name, args.batches)
    else:
        loss, method, feed = MODELS[args.name](args.batches)
    method.minimize(loss)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    program = fluid.default_main_program()
    if args.way == 'compiled':
        program = fluid.CompiledProgram(program)
    if args.places > 1 or args.shards or args.way == 'parallel':
        strategy = fluid.BuildStrategy()
        if args.shards:
            strategy.virtual_shards = args.shards
        program = fluid.CompiledProgram(fluid.default_main_program()).with_data_parallel(
            loss_name=loss.name, build_strategy=strategy, places=fluid.cpu_places(args.places))

    def step():
        return exe.run(program, feed=feed, fetch_list=[loss])[0]

    for _ in range(3):
        value = step()
    if not numpy.isfinite(value).all():
        raise SystemExit('the loss of %s is %s' % (args.name, value))
    clock.report(clock.measure(step, args), paddle.__version__)


main()
