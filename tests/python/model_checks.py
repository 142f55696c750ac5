"""What is asked of every model: it learns, with and without passes, cloned, serialised, saved, loaded."""
import numpy as np

import _trireme as _C
import paddle.fluid as fluid

STEPS = 20


def _train(program, startup, feeds, loss, steps, passes_off=()):
    """The losses of the first steps, from fresh values, and the scope they left."""
    exe, scope, losses = fluid.Executor(fluid.CPUPlace()), fluid.Scope(), []
    with fluid.scope_guard(scope):
        exe.run(startup)
        for i in range(steps):
            if passes_off:
                value, = exe._engine.run(program, feeds[i % len(feeds)], [loss], None, True, False,
                                         False, list(passes_off))
            else:
                value, = exe.run(program, feed=feeds[i % len(feeds)], fetch_list=[loss])
            losses.append(value.mean())  # of all devices
    return losses, exe, scope


def _nudged(feed, by):
    return {name: (value * (1 + by)).astype('float32') if getattr(value, 'dtype', None) == np.float32 else value
            for name, value in feed.items()}


def check_model(build, feeds, infer_names, tmp_path, falls_to, same_on_two=False):
    """build() makes the model in the default programs and returns (loss, prediction, minimize).

    The mean loss of the last five of 20 steps must be falls_to times that of the first five. With
    same_on_two, two devices that share every batch must find the same losses.
    """
    main, startup = fluid.default_main_program(), fluid.default_startup_program()
    main.random_seed = startup.random_seed = 1
    loss, prediction, minimize = build()
    test = main.clone(for_test=True)
    minimize(loss)
    losses, exe, scope = _train(main, startup, feeds, loss.name, STEPS)
    assert np.mean(losses[-5:]) < falls_to * np.mean(losses[:5]), losses

    some = 4
    # Laying images out anew changes the order of sums, and a deep net makes much of a last digit: in step
    # two what is left of a nudge of 1e-7 can be seen in the second digit, and in step three there is nothing
    # left to compare. So the first two steps may differ by what nudges make of them.
    nudged = [_train(main, startup, [_nudged(feed, by) for feed in feeds], loss.name, 2, _C.pass_names())[0]
              for by in (1e-7, -1e-7, 2e-7, -2e-7, 3e-7, -3e-7)]
    off = _train(main, startup, feeds, loss.name, some, _C.pass_names())[0]
    np.testing.assert_allclose(losses[:2], off[:2], rtol=1e-5, atol=np.max(np.abs(np.subtract(nudged, off[:2]))),
                               err_msg='passes off')
    np.testing.assert_allclose(losses[0], off[0], rtol=1e-5, err_msg='the first step, passes off')
    for name in ('fuse_batch_norm', 'fuse_elementwise'):  # change no bit
        np.testing.assert_array_equal(losses[:some], _train(main, startup, feeds, loss.name, some, [name])[0],
                                      err_msg=name)
    others = {
        'layouts as in the program': _train(main, startup, feeds, loss.name, some, ['assign_layout']),
        'compiled': _train(fluid.CompiledProgram(main).with_data_parallel(loss.name, places=[fluid.CPUPlace()]),
                           startup, feeds, loss.name, some),
        'a clone': _train(main.clone(), startup.clone(), feeds, loss.name, some),
        'serialised': _train(fluid.Program.parse_from_string(main.desc.serialize_to_string()), startup,
                             feeds, loss.name, some),
    }
    if same_on_two:
        parallel = fluid.CompiledProgram(main).with_data_parallel(loss.name, places=[fluid.CPUPlace()] * 2)
        others['two devices'] = _train(parallel, startup, feeds, loss.name, some)
    for how, (found, _, _) in others.items():
        same_as = off if how == 'layouts as in the program' else losses[:some]
        np.testing.assert_allclose(found, same_as, rtol=1e-5, err_msg=how)

    with fluid.scope_guard(scope):
        expected, = exe.run(test, feed=feeds[0], fetch_list=[prediction])
        fluid.io.save_inference_model(str(tmp_path / 'model'), infer_names, [prediction], exe,
                                      main_program=main)
        fluid.io.save_persistables(exe, str(tmp_path / 'values'), main)
        after, = exe.run(main, feed=feeds[0], fetch_list=[loss])
    with fluid.scope_guard(fluid.Scope()):
        program, names, targets = fluid.io.load_inference_model(str(tmp_path / 'model'), exe)
        assert names == infer_names
        found, = exe.run(program, feed={name: feeds[0][name] for name in names}, fetch_list=targets)
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7)
    with fluid.scope_guard(fluid.Scope()):
        exe.run(startup)
        fluid.io.load_persistables(exe, str(tmp_path / 'values'), main)
        found, = exe.run(main, feed=feeds[0], fetch_list=[loss])
        np.testing.assert_allclose(found, after, rtol=1e-6)
