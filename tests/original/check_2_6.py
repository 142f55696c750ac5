"""Loads the files of one net of files_2_6.py and compares what they give with what 2.6.2 computed.

python tests/original/check_2_6.py NET FOLDER
"""
import os
import sys

import numpy as np
import paddle
import paddle.static as static

import files_2_6

# float32: sums of a few hundred numbers in another order.
NEAR = dict(rtol=2e-5, atol=2e-6)


def check(name, folder):
    record = np.load(files_2_6.PATH)
    prefix = name + '/file/'
    for key in record.files:
        if key.startswith(prefix):
            with open(os.path.join(folder, key[len(prefix):]), 'wb') as file:
                file.write(record[key].tobytes())
    feed, out, losses = (record[name + '/' + what] for what in ('feed', 'out', 'losses'))
    exe = static.Executor(paddle.CPUPlace())

    with static.scope_guard(static.Scope()):
        program, feeds, fetches = static.load_inference_model(os.path.join(folder, 'model'), exe)
        assert feeds == ['x']
        found, = exe.run(program, feed={'x': feed}, fetch_list=fetches)
        np.testing.assert_allclose(found, out, **NEAR)
        print('model')

    built = files_2_6.Built(name)
    state = static.load_program_state(os.path.join(folder, 'state'))
    persistable = {var.name for var in built.main.list_vars() if var.persistable}
    assert set(state) <= persistable, sorted(set(state) - persistable)
    with static.scope_guard(static.Scope()):
        exe.run(built.startup)
        static.load(built.main, os.path.join(folder, 'state'), exe)
        found, = exe.run(built.test, feed={'x': feed}, fetch_list=[built.out.name])
        np.testing.assert_allclose(found, out, **NEAR)
        print('state')
        np.testing.assert_allclose(files_2_6.losses(built, exe, feed), losses, **NEAR)
        print('training')

    with open(os.path.join(folder, 'state.pdmodel'), 'rb') as file:
        program = static.deserialize_program(file.read())
    assert [op.type for op in program.global_block().ops]
    with static.scope_guard(static.Scope()):
        static.load(program, os.path.join(folder, 'state'), exe)
        loss = next(op.output('Out')[0] for op in program.global_block().ops
                    if op.type in ('reduce_mean', 'mean') and op.output('Out')[0] == built.loss.name)
        found = [float(np.asarray(exe.run(program, feed={'x': feed}, fetch_list=[loss])[0]).ravel()[0])
                 for _ in losses]
        np.testing.assert_allclose(found, losses, **NEAR)
        print('program')


if __name__ == '__main__':
    paddle.enable_static()
    check(*sys.argv[1:])
