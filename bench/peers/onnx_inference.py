"""One call of ONNX Runtime on the models of steps/fluid_inference.py; one JSON line.

onnx_inference.py NAME [--reps N] [--secs S] [--callers N]

The models are written node by node with onnx's helper, as an exporter writes them; ONNX Runtime folds and fuses
them by itself, with all its optimizations on. Callers share one session, each with the threads that
OMP_NUM_THREADS gives.
"""

import sys
from pathlib import Path

import numpy
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / 'support'))
import clock  # noqa: E402


class Net:
    """Nodes and parameters that are added one after another; an operator gives its result's name."""

    def __init__(self):
        self.nodes, self.parameters, self.inputs, self.feed = [], [], [], {}
        self.random = numpy.random.default_rng(0)

    def given(self, name, array):
        kind = TensorProto.INT64 if array.dtype == numpy.int64 else TensorProto.FLOAT
        self.inputs.append(helper.make_tensor_value_info(name, kind, array.shape))
        self.feed[name] = array
        return name

    def const(self, array):
        name = f'c{len(self.parameters)}'
        self.parameters.append(numpy_helper.from_array(array, name))
        return name

    def ints(self, *values):
        return self.const(numpy.array(values, numpy.int64))

    def noise(self, *shape):
        scale = numpy.prod(shape[1:]) ** -0.5 if len(shape) > 1 else 0.1
        return self.const(self.random.standard_normal(shape, numpy.float32) * numpy.float32(scale))

    def op(self, kind, *inputs, outputs=1, **attributes):
        names = [f'v{len(self.nodes)}_{i}' for i in range(outputs)]
        self.nodes.append(helper.make_node(kind, list(inputs), names, **attributes))
        return names if outputs > 1 else names[0]

    def dense(self, x, given, size):
        return self.op('Add', self.op('MatMul', x, self.noise(given, size)), self.noise(size))

    def gemm(self, x, given, size):
        return self.op('Gemm', x, self.noise(given, size), self.noise(size))

    def norm(self, x, width):
        return self.op('LayerNormalization', x, self.const(numpy.ones(width, numpy.float32)),
                       self.const(numpy.zeros(width, numpy.float32)), axis=-1, epsilon=1e-5)

    def conv_bn(self, x, given, maps, window, stride, act=True, groups=1):
        x = self.op('Conv', x, self.noise(maps, given // groups, window, window), strides=[stride] * 2,
                    pads=[window // 2] * 4, group=groups)
        x = self.op('BatchNormalization', x, *(self.const(numpy.full(maps, value, numpy.float32))
                                               for value in (1, 0, 0, 1)), epsilon=1e-5)
        return self.op('Relu', x) if act else x

    def classes(self, x, given):
        x = self.op('Flatten', self.op('GlobalAveragePool', x), axis=1)
        return self.op('Softmax', self.gemm(x, given, 1000), axis=-1)


def resnet50(net, rows):
    x = net.given('x', net.random.standard_normal((rows, 3, 224, 224), numpy.float32))
    x = net.conv_bn(x, 3, 64, 7, 2)
    x = net.op('MaxPool', x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    given = 64
    for maps, blocks, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for i in range(blocks):
            step = stride if i == 0 else 1
            y = net.conv_bn(x, given, maps, 1, 1)
            y = net.conv_bn(y, maps, maps, 3, step)
            y = net.conv_bn(y, maps, 4 * maps, 1, 1, act=False)
            way = net.conv_bn(x, given, 4 * maps, 1, step, act=False) if i == 0 else x
            x = net.op('Relu', net.op('Add', y, way))
            given = 4 * maps
    return net.classes(x, 2048)


def mobilenet(net, rows):
    x = net.given('x', net.random.standard_normal((rows, 3, 224, 224), numpy.float32))
    x, given = net.conv_bn(x, 3, 32, 3, 2), 32
    for maps, stride in ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), (512, 1), (512, 1), (512, 1),
                         (512, 1), (512, 1), (1024, 2), (1024, 1)):
        x = net.conv_bn(x, given, given, 3, stride, groups=given)
        x = net.conv_bn(x, given, maps, 1, 1)
        given = maps
    return net.classes(x, 1024)


def lstm(net, rows):
    words = net.given('words', net.random.integers(5147, size=(100, rows)))
    x = net.op('Gather', net.noise(5147, 512), words)
    hidden = net.op('LSTM', x, net.noise(1, 2048, 512), net.noise(1, 2048, 512), net.noise(1, 4096), hidden_size=512)
    top = net.op('ReduceMax', hidden, net.ints(0), keepdims=0)
    return net.op('Softmax', net.gemm(net.op('Reshape', top, net.ints(rows, 512)), 512, 2), axis=-1)


def bert(net, rows):
    width, heads, tokens = 768, 12, 128
    words = net.given('words', net.random.integers(30522, size=(rows, tokens)))
    x = net.op('Add', net.op('Gather', net.noise(30522, width), words), net.noise(tokens, width))
    x = net.norm(x, width)
    for _ in range(12):
        query, key, value = (net.op('Reshape', net.dense(x, width, width), net.ints(0, 0, heads, -1))
                             for _ in range(3))
        query, value = (net.op('Transpose', part, perm=[0, 2, 1, 3]) for part in (query, value))
        key = net.op('Transpose', key, perm=[0, 2, 3, 1])
        scale = net.const(numpy.float32((width // heads) ** -0.5))
        weights = net.op('Softmax', net.op('Mul', net.op('MatMul', query, key), scale), axis=-1)
        mixed = net.op('Transpose', net.op('MatMul', weights, value), perm=[0, 2, 1, 3])
        attended = net.dense(net.op('Reshape', mixed, net.ints(0, 0, width)), width, width)
        x = net.norm(net.op('Add', x, attended), width)
        wide = net.op('Gelu', net.dense(x, width, 4 * width))
        x = net.norm(net.op('Add', x, net.dense(wide, 4 * width, width)), width)
    first = net.op('Gather', x, net.const(numpy.int64(0)), axis=1)
    return net.op('Softmax', net.gemm(first, width, 2), axis=-1)


def ctr(net, rows):
    dense = net.given('dense', net.random.standard_normal((rows, 13), numpy.float32))
    slots = net.given('slots', net.random.integers(1000000, size=(rows, 26)))
    deep = net.op('Reshape', net.op('Gather', net.noise(1000000, 10), slots), net.ints(rows, 260))
    deep, given = net.op('Concat', deep, dense, axis=1), 273
    for _ in range(3):
        deep, given = net.op('Relu', net.gemm(deep, given, 400)), 400
    return net.op('Sigmoid', net.op('Add', net.gemm(deep, 400, 1), net.gemm(dense, 13, 1)))


MODELS = {model.__name__: model for model in (resnet50, mobilenet, lstm, bert, ctr)}


def main():
    parser = clock.arguments()
    parser.add_argument('--callers', type=int, default=1)
    args = parser.parse_args()
    name, _, rows = args.name.partition('_b')
    net = Net()
    out = MODELS[name](net, int(rows))
    result = helper.make_tensor_value_info(out, TensorProto.FLOAT, ['rows', 'classes'])
    graph = helper.make_graph(net.nodes, name, net.inputs, [result], net.parameters)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid('', 20)], ir_version=9)
    onnx.checker.check_model(model)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = clock.threads()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=['CPUExecutionProvider'])

    def call():
        return session.run([out], net.feed)[0]

    for _ in range(3):
        value = call()
    if not numpy.isfinite(value).all():
        raise SystemExit(f'the result of {args.name} is {value}')
    clock.report(clock.measure_callers([call] * args.callers, args), onnxruntime.__version__)


if __name__ == '__main__':
    main()
