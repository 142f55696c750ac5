"""Models and training states that PaddlePaddle 2.6.2 wrote, with what it computed of them.

python tests/original/files_2_6.py    in a Python with paddlepaddle 2.6.2: writes records/files_2_6.npz

The nets are built by the same lines in ours (`NETS`), so that a state is loaded into the same program.
"""
import os
import sys
import tempfile

import numpy as np
import paddle
import paddle.static as static

PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'records', 'files_2_6.npz')
STEPS = 3


def named(name):
    return paddle.ParamAttr(name=name)


def mlp(x):
    hidden = static.nn.fc(x, 8, weight_attr=named('w1'), bias_attr=named('b1'), activation='relu')
    hidden = paddle.nn.functional.dropout(hidden, 0.0)
    return static.nn.fc(hidden, 3, weight_attr=named('w2'), bias_attr=named('b2'), activation='softmax')


def image(x):
    out = static.nn.conv2d(x, 4, 3, padding=1, param_attr=named('cw'), bias_attr=named('cb'))
    out = static.nn.batch_norm(out, act='relu', param_attr=named('bs'), bias_attr=named('bb'),
                               moving_mean_name='bm', moving_variance_name='bv')
    out = paddle.reshape(out, [-1, 4 * 6 * 6])
    return static.nn.fc(out, 2, weight_attr=named('w'), bias_attr=named('b'))


def words(x):
    out = static.nn.embedding(x, [20, 6], param_attr=named('table'))
    out = static.nn.layer_norm(out, begin_norm_axis=2, param_attr=named('ls'), bias_attr=named('lb'))
    out = paddle.transpose(out, [0, 2, 1])
    out = paddle.concat([out, paddle.tanh(out)], axis=1)
    return paddle.matmul(out, out, transpose_y=True)


def arithmetic(x):
    w = static.create_parameter([4, 4], 'float32', attr=named('p'))
    out = paddle.matmul(x, w)
    out = paddle.exp(out * 0.1) + paddle.sqrt(paddle.abs(out) + 1.0) - out / 3.0
    return paddle.mean(paddle.squeeze(paddle.unsqueeze(out, 1), 1), axis=-1, keepdim=True)


# net, shape and type of its feed, optimizer
NETS = {
    'mlp_adam': (mlp, [None, 5], 'float32', lambda: paddle.optimizer.Adam(0.01)),
    'mlp_sgd': (mlp, [None, 5], 'float32', lambda: paddle.optimizer.SGD(0.1)),
    'image_momentum': (image, [None, 1, 6, 6], 'float32', lambda: paddle.optimizer.Momentum(0.01, 0.9)),
    'words_adagrad': (words, [None, 7], 'int64', lambda: paddle.optimizer.Adagrad(0.05)),
    'arithmetic_adam': (arithmetic, [None, 4], 'float32', lambda: paddle.optimizer.Adam(0.02)),
}


def feed_of(name):
    _, shape, dtype, _ = NETS[name]
    draw = np.random.RandomState(len(name))
    size = [4] + shape[1:]
    return draw.randint(0, 20, size) if dtype == 'int64' else draw.uniform(-1, 1, size).astype('float32')


class Built:
    """A net's programs, where it is fed and what it gives."""

    def __init__(self, name):
        net, shape, dtype, optimizer = NETS[name]
        self.main, self.startup = static.Program(), static.Program()
        self.startup.random_seed = 7
        with static.program_guard(self.main, self.startup):
            self.x = static.data('x', shape, dtype)
            self.out = net(self.x)
            self.test = self.main.clone(for_test=True)
            self.loss = paddle.mean(self.out * self.out)
            optimizer().minimize(self.loss)


def losses(built, exe, feed):
    return np.array([float(np.asarray(exe.run(built.main, feed={'x': feed}, fetch_list=[built.loss])[0]).ravel()[0])
                     for _ in range(STEPS)])


def record():
    found = {}
    for name in sorted(NETS):
        with tempfile.TemporaryDirectory() as folder, static.scope_guard(static.Scope()), \
                paddle.utils.unique_name.guard():
            built, feed = Built(name), feed_of(name)
            exe = static.Executor(paddle.CPUPlace())
            exe.run(built.startup)
            losses(built, exe, feed)
            out, = exe.run(built.test, feed={'x': feed}, fetch_list=[built.out.name])
            static.save_inference_model(os.path.join(folder, 'model'), [built.x], [built.out], exe,
                                        program=built.main)
            static.save(built.main, os.path.join(folder, 'state'))
            found[name + '/feed'], found[name + '/out'] = feed, out
            found[name + '/losses'] = losses(built, exe, feed)
            for file in sorted(os.listdir(folder)):
                with open(os.path.join(folder, file), 'rb') as opened:
                    found['%s/file/%s' % (name, file)] = np.frombuffer(opened.read(), 'uint8')
    np.savez_compressed(PATH, **found)


if __name__ == '__main__':
    assert paddle.__version__ == '2.6.2', paddle.__version__
    paddle.enable_static()
    record()
    sys.stdout.write('%d bytes\n' % os.path.getsize(PATH))
