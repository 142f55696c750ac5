"""A step for the certificate: two convolutions, batch_norm and Adam. record.py made conv_step.npz of it under 1.8.5."""
import numpy as np
import paddle.fluid as fluid
img = fluid.data('img', [None, 1, 12, 12]); y = fluid.data('y', [None, 1], 'int64')
c = fluid.nets.simple_img_conv_pool(img, 8, 3, 2, 2, act='relu')
c = fluid.layers.batch_norm(fluid.layers.conv2d(c, 8, 3), act='relu')
p = fluid.layers.fc(c, 10, act='softmax')
loss = fluid.layers.mean(fluid.layers.cross_entropy(p, y))
fluid.optimizer.Adam(0.01).minimize(loss)
exe = fluid.Executor(fluid.CPUPlace()); exe.run(fluid.default_startup_program())
r = np.random.RandomState(0)
for i in range(10):
    l, = exe.run(feed={'img': r.rand(32, 1, 12, 12).astype('float32'), 'y': r.randint(0, 10, (32, 1))}, fetch_list=[loss])
