"""One call of a saved model through paddle.fluid; one JSON line.

fluid_inference.py NAME [--reps N] [--secs S] [--predictor] [--callers N]

The model is built with random parameters, saved by save_inference_model and loaded into a scope of its own.
--predictor asks an AnalysisConfig predictor, by handles, instead of Executor.run. --callers are threads that
call at the same time; OMP_NUM_THREADS counts for each. The same script runs in Trireme and in the original:
Python 2.7 and 3, names of fluid 1.8.
"""

import os
import shutil
import sys
import tempfile

import numpy
import paddle
import paddle.fluid as fluid
from paddle.fluid import layers

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, 'support'))
import clock  # noqa: E402

# A model appends itself to the default program and returns its result and what to feed.

random = numpy.random.RandomState(0)


def floats(*shape):
    return random.standard_normal(shape).astype('float32')


def whole(count, *shape):
    return random.randint(0, count, shape).astype('int64')


def conv_bn(x, maps, window, stride, act, groups=1):
    x = layers.conv2d(x, maps, window, stride, padding=window // 2, groups=groups, bias_attr=False,
                      use_cudnn=groups == 1)
    return layers.batch_norm(x, act=act)


def resnet50(rows):
    x = conv_bn(layers.data('x', [3, 224, 224]), 64, 7, 2, 'relu')
    x = layers.pool2d(x, 3, pool_stride=2, pool_padding=1)
    for maps, blocks, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for i in range(blocks):
            step = stride if i == 0 else 1
            y = conv_bn(x, maps, 1, 1, 'relu')
            y = conv_bn(y, maps, 3, step, 'relu')
            y = conv_bn(y, 4 * maps, 1, 1, None)
            way = conv_bn(x, 4 * maps, 1, step, None) if i == 0 else x
            x = layers.elementwise_add(y, way, act='relu')
    x = layers.pool2d(x, pool_type='avg', global_pooling=True)
    return layers.fc(x, 1000, act='softmax'), {'x': floats(rows, 3, 224, 224)}


def mobilenet(rows):
    x = conv_bn(layers.data('x', [3, 224, 224]), 32, 3, 2, 'relu')
    given = 32
    for maps, stride in ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), (512, 1), (512, 1), (512, 1),
                         (512, 1), (512, 1), (1024, 2), (1024, 1)):
        x = conv_bn(x, given, 3, stride, 'relu', groups=given)
        x = conv_bn(x, maps, 1, 1, 'relu')
        given = maps
    x = layers.pool2d(x, pool_type='avg', global_pooling=True)
    return layers.fc(x, 1000, act='softmax'), {'x': floats(rows, 3, 224, 224)}


def lstm(rows):
    """Sequences of 100 words: embedding, one LSTM, the largest of each feature over time."""
    words = layers.data('words', [1], dtype='int64', lod_level=1)
    gates = layers.fc(layers.embedding(words, [5147, 512]), 2048)
    hidden, _ = layers.dynamic_lstm(gates, 2048, use_peepholes=False)
    pooled = layers.sequence_pool(hidden, 'max')
    feed = fluid.create_lod_tensor(whole(5147, 100 * rows, 1), [[100] * rows], fluid.CPUPlace())
    return layers.fc(pooled, 2, act='softmax'), {'words': feed}


def bert(rows):
    """The size of BERT base, over 128 tokens: the whole encoder, then the first token's class."""
    width, heads, tokens = 768, 12, 128

    def dense(given, size, act=None):
        return layers.fc(given, size, num_flatten_dims=2, act=act)

    def split_heads(part):
        return layers.transpose(layers.reshape(part, [0, 0, heads, width // heads]), [0, 2, 1, 3])

    words = layers.data('words', [tokens, 1], dtype='int64')
    places = layers.create_parameter([tokens, width], 'float32')
    x = layers.elementwise_add(layers.embedding(words, [30522, width]), places, axis=1)
    x = layers.layer_norm(x, begin_norm_axis=2)
    for _ in range(12):
        query, key, value = (split_heads(dense(x, width)) for _ in range(3))
        weights = layers.softmax(layers.matmul(query, key, transpose_y=True, alpha=(width // heads) ** -0.5))
        mixed = layers.transpose(layers.matmul(weights, value), [0, 2, 1, 3])
        attended = dense(layers.reshape(mixed, [0, 0, width]), width)
        x = layers.layer_norm(layers.elementwise_add(x, attended), begin_norm_axis=2)
        wide = dense(dense(x, 4 * width, 'gelu'), width)
        x = layers.layer_norm(layers.elementwise_add(x, wide), begin_norm_axis=2)
    first = layers.reshape(layers.slice(x, [1], [0], [1]), [-1, width])
    return layers.fc(first, 2, act='softmax'), {'words': whole(30522, rows, tokens, 1)}


def ctr(rows):
    """Wide and deep: 26 slots share a table of a million rows; 13 dense features."""
    dense = layers.data('dense', [13])
    slots = layers.data('slots', [26, 1], dtype='int64')
    deep = layers.concat([layers.reshape(layers.embedding(slots, [1000000, 10]), [-1, 260]), dense], 1)
    for _ in range(3):
        deep = layers.fc(deep, 400, act='relu')
    out = layers.sigmoid(layers.elementwise_add(layers.fc(deep, 1), layers.fc(dense, 1)))
    return out, {'dense': floats(rows, 13), 'slots': whole(1000000, rows, 26, 1)}


MODELS = dict((model.__name__, model) for model in (resnet50, mobilenet, lstm, bert, ctr))


def by_executor(folder, feed, callers):
    """One function for each caller: all run one program in one scope."""
    exe = fluid.Executor(fluid.CPUPlace())
    program, _, targets = fluid.io.load_inference_model(folder, exe, params_filename='parameters')

    def call():
        return exe.run(program, feed=feed, fetch_list=targets)[0]
    return [call] * callers


def by_predictor(folder, feed, callers):
    """Each caller has a predictor, by its handles: the first, and clones of it."""
    config = fluid.core.AnalysisConfig(os.path.join(folder, '__model__'), os.path.join(folder, 'parameters'))
    config.disable_gpu()
    config.switch_use_feed_fetch_ops(False)
    config.set_cpu_math_library_num_threads(clock.threads())
    first = fluid.core.create_paddle_predictor(config)

    def call_of(predictor):
        inputs = dict((name, predictor.get_input_tensor(name)) for name in feed)
        output = predictor.get_output_tensor(predictor.get_output_names()[0])
        values = {}
        for name, tensor in inputs.items():
            values[name] = numpy.array(feed[name])
            if not isinstance(feed[name], numpy.ndarray):
                tensor.set_lod(feed[name].lod())

        def call():
            for name, tensor in inputs.items():
                tensor.copy_from_cpu(values[name])
            predictor.zero_copy_run()
            return output.copy_to_cpu()
        return call
    return [call_of(first)] + [call_of(first.clone()) for _ in range(callers - 1)]


def main():
    parser = clock.arguments()
    parser.add_argument('--predictor', action='store_true')
    parser.add_argument('--callers', type=int, default=1)
    args = parser.parse_args()
    model, _, rows = args.name.partition('_b')
    out, feed = MODELS[model](int(rows))
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    folder = tempfile.mkdtemp()
    try:
        program = fluid.default_main_program().clone(for_test=True)
        fluid.io.save_inference_model(folder, sorted(feed), [out], exe, main_program=program,
                                      params_filename='parameters')
        with fluid.scope_guard(fluid.Scope()):
            calls = (by_predictor if args.predictor else by_executor)(folder, feed, args.callers)
            for call in calls * 3:
                value = call()
            if not numpy.isfinite(value).all():
                raise SystemExit('the result of %s is %s' % (args.name, value))
            clock.report(clock.measure_callers(calls, args), paddle.__version__)
    finally:
        shutil.rmtree(folder)


main()
