"""How a person rates a film: the cosine of what is known of the one and of the other.

    recommender_system.py
"""
import random
import sys
import tempfile

import numpy as np
import paddle
import paddle.fluid as fluid
import paddle.fluid.layers as layers
import paddle.fluid.nets as nets

import made_sets

IS_SPARSE = True
BATCH_SIZE = 128
GOAL = 0.8  # mean squared error of ratings from -3 to 5; answering the mean gives about 4


def get_usr_combined_features():
    movielens = paddle.dataset.movielens
    uid = layers.data(name='user_id', shape=[1], dtype='int64')
    usr_emb = layers.embedding(input=uid, dtype='float32', size=[movielens.max_user_id() + 1, 32],
                               param_attr='user_table', is_sparse=IS_SPARSE)
    usr_fc = layers.fc(input=usr_emb, size=32)

    usr_gender_id = layers.data(name='gender_id', shape=[1], dtype='int64')
    usr_gender_emb = layers.embedding(input=usr_gender_id, size=[2, 16], param_attr='gender_table',
                                      is_sparse=IS_SPARSE)
    usr_gender_fc = layers.fc(input=usr_gender_emb, size=16)

    usr_age_id = layers.data(name='age_id', shape=[1], dtype='int64')
    usr_age_emb = layers.embedding(input=usr_age_id, size=[len(movielens.age_table), 16],
                                   is_sparse=IS_SPARSE, param_attr='age_table')
    usr_age_fc = layers.fc(input=usr_age_emb, size=16)

    usr_job_id = layers.data(name='job_id', shape=[1], dtype='int64')
    usr_job_emb = layers.embedding(input=usr_job_id, size=[movielens.max_job_id() + 1, 16],
                                   param_attr='job_table', is_sparse=IS_SPARSE)
    usr_job_fc = layers.fc(input=usr_job_emb, size=16)

    concat_embed = layers.concat(input=[usr_fc, usr_gender_fc, usr_age_fc, usr_job_fc], axis=1)
    return layers.fc(input=concat_embed, size=200, act='tanh')


def get_mov_combined_features():
    movielens = paddle.dataset.movielens
    mov_id = layers.data(name='movie_id', shape=[1], dtype='int64')
    mov_emb = layers.embedding(input=mov_id, dtype='float32', size=[movielens.max_movie_id() + 1, 32],
                               param_attr='movie_table', is_sparse=IS_SPARSE)
    mov_fc = layers.fc(input=mov_emb, size=32)

    category_id = layers.data(name='category_id', shape=[1], dtype='int64', lod_level=1)
    mov_categories_emb = layers.embedding(input=category_id, is_sparse=IS_SPARSE,
                                          size=[len(movielens.movie_categories()), 32])
    mov_categories_hidden = layers.sequence_pool(input=mov_categories_emb, pool_type='sum')

    mov_title_id = layers.data(name='movie_title', shape=[1], dtype='int64', lod_level=1)
    mov_title_emb = layers.embedding(input=mov_title_id, is_sparse=IS_SPARSE,
                                     size=[len(movielens.get_movie_title_dict()), 32])
    mov_title_conv = nets.sequence_conv_pool(input=mov_title_emb, num_filters=32, filter_size=3,
                                             act='tanh', pool_type='sum')

    concat_embed = layers.concat(input=[mov_fc, mov_categories_hidden, mov_title_conv], axis=1)
    return layers.fc(input=concat_embed, size=200, act='tanh')


def model():
    usr_combined_features = get_usr_combined_features()
    mov_combined_features = get_mov_combined_features()
    inference = layers.cos_sim(X=usr_combined_features, Y=mov_combined_features)
    scale_infer = layers.scale(x=inference, scale=5.0)
    label = layers.data(name='score', shape=[1], dtype='float32')
    square_cost = layers.square_error_cost(input=scale_infer, label=label)
    return scale_infer, layers.mean(square_cost)


FEED_ORDER = ['user_id', 'gender_id', 'age_id', 'job_id', 'movie_id', 'category_id', 'movie_title', 'score']


def train(save_dirname, epochs):
    scale_infer, avg_cost = model()
    test_program = fluid.default_main_program().clone(for_test=True)
    fluid.optimizer.Adam(learning_rate=0.003).minimize(avg_cost)

    place = fluid.CPUPlace()
    exe = fluid.Executor(place)
    exe.run(fluid.default_startup_program())
    feed_list = [fluid.default_main_program().global_block().var(name) for name in FEED_ORDER]
    feeder = fluid.DataFeeder(feed_list, place)
    train_reader = paddle.batch(
        paddle.reader.shuffle(paddle.dataset.movielens.train(), buf_size=8192), batch_size=BATCH_SIZE)
    test_reader = paddle.batch(paddle.dataset.movielens.test(), batch_size=BATCH_SIZE)
    for epoch in range(epochs):
        for data in train_reader():
            loss, = exe.run(feed=feeder.feed(data), fetch_list=[avg_cost])
        losses = [exe.run(program=test_program, feed=feeder.feed(data), fetch_list=[avg_cost])[0][0]
                  for data in test_reader()]
        print('epoch %d: loss %.3f, test loss %.3f' % (epoch + 1, loss[0], np.mean(losses)))
    fluid.io.save_inference_model(save_dirname, FEED_ORDER[:-1], [scale_infer], exe)
    sample = feeder.feed(next(test_reader())[:5])
    expected, = exe.run(test_program, feed=sample, fetch_list=[scale_infer])
    del sample['score']
    return np.mean(losses), sample, expected


def infer(save_dirname, sample):
    exe = fluid.Executor(fluid.CPUPlace())
    with fluid.scope_guard(fluid.core.Scope()):
        inference_program, feed_target_names, fetch_targets = fluid.io.load_inference_model(
            save_dirname, exe)
        assert feed_target_names == FEED_ORDER[:-1]
        results, = exe.run(inference_program, feed=sample, fetch_list=fetch_targets)
    return results


def main():
    random.seed(1)  # the order of the samples
    fluid.default_startup_program().random_seed = 1
    with tempfile.TemporaryDirectory() as home, tempfile.TemporaryDirectory() as save_dirname:
        made_sets.movielens(home)
        loss, sample, expected = train(save_dirname, epochs=8)
        assert np.array_equal(infer(save_dirname, sample), expected), 'the loaded model differs'
    print('test loss %.3f (goal %.2f); the loaded model predicts the same' % (loss, GOAL))
    return 0 if loss < GOAL else 1


if __name__ == '__main__':
    sys.exit(main())
