"""CTR wide and deep: sparse embeddings of lists of ids, and a linear part beside the deep one."""
import numpy as np
import pytest

import paddle.fluid as fluid
from model_checks import check_model

layers = fluid.layers

DEEP_IDS, WIDE_IDS = 1000, 200


def ctr_net(optimizer):
    deep_ids = layers.data(name='dnn_data', shape=[-1, 1], dtype='int64', lod_level=1,
                           append_batch_size=False)
    wide_ids = layers.data(name='lr_data', shape=[-1, 1], dtype='int64', lod_level=1,
                           append_batch_size=False)
    label = layers.data(name='click', shape=[-1, 1], dtype='int64', append_batch_size=False)

    deep = layers.embedding(
        is_sparse=True, input=deep_ids, size=[DEEP_IDS, 16],
        param_attr=fluid.ParamAttr(name='deep_embedding', initializer=fluid.initializer.Uniform(-0.5, 0.5)))
    hidden = layers.sequence_pool(input=deep, pool_type='sum')
    for i, size in enumerate([32, 32, 16]):
        hidden = layers.fc(input=hidden, size=size, act='relu', name='dnn-fc-%d' % i)
    wide = layers.embedding(
        is_sparse=True, input=wide_ids, size=[WIDE_IDS, 1],
        param_attr=fluid.ParamAttr(name='wide_embedding', initializer=fluid.initializer.Constant(0.01)))
    merged = layers.concat(input=[hidden, layers.sequence_pool(input=wide, pool_type='sum')], axis=1)
    prediction = layers.fc(input=merged, size=2, act='softmax')
    layers.auc(input=prediction, label=label)
    loss = layers.mean(layers.cross_entropy(input=prediction, label=label))
    return loss, prediction, lambda loss: optimizer().minimize(loss)


def clicks(count=4, size=32):
    """Whether something was clicked depends on a few of its many ids."""
    random = np.random.RandomState(2)
    for _ in range(count):
        deep = [random.randint(0, DEEP_IDS, random.randint(1, 6)) for _ in range(size)]
        wide = [random.randint(0, WIDE_IDS, random.randint(1, 3)) for _ in range(size)]
        click = np.array([[int((d % 7).sum() + w.sum() > WIDE_IDS // 2 + 9)] for d, w in zip(deep, wide)])
        lod = lambda rows: fluid.create_lod_tensor(np.concatenate(rows).reshape(-1, 1), [[len(r) for r in rows]],
                                                   fluid.CPUPlace())
        yield {'dnn_data': lod(deep), 'lr_data': lod(wide), 'click': click}


@pytest.mark.parametrize('optimizer', [
    lambda: fluid.optimizer.SGD(learning_rate=0.1),
    lambda: fluid.optimizer.Adagrad(learning_rate=0.05),
    lambda: fluid.optimizer.Adam(learning_rate=0.005, lazy_mode=True),
], ids=['sgd', 'adagrad', 'lazy adam'])
def test_wide_and_deep(tmp_path, optimizer):
    check_model(lambda: ctr_net(optimizer), list(clicks()), ['dnn_data', 'lr_data'], tmp_path, falls_to=0.95,
                same_on_two=True)
