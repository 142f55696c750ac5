"""Programs that threads build at once do not mix."""
import threading

import numpy as np
import paddle.fluid as fluid


def in_threads(work, count=4):
    """What work(i) returns, each in a thread of its own, all begun together."""
    results, errors, gate = [None] * count, [], threading.Barrier(count)

    def body(i):
        try:
            gate.wait()
            results[i] = work(i)
        except BaseException as error:  # noqa: B902
            errors.append(error)
    threads = [threading.Thread(target=body, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors
    return results


def build(i, layers=30):
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard(), fluid.name_scope('part%d' % i):
        x = fluid.data('x', [None, 4], 'float32')
        for _ in range(layers):
            x = fluid.layers.fc(x, size=4)
        assert fluid.default_main_program() is main or fluid.default_main_program() == main
    return main, startup


def types(program):
    return [op.type for op in program.global_block().ops]


def test_guards_of_threads_do_not_meet():
    alone, alone_startup = build(0)
    before = len(fluid.default_main_program().global_block().ops)
    for i, (main, startup) in enumerate(in_threads(build)):
        assert types(main) == types(alone)
        assert types(startup) == types(alone_startup)
        assert [p.name for p in main.all_parameters()] == [p.name for p in alone.all_parameters()]
        assert {op.attr('op_namescope') for op in main.global_block().ops} == {'/part%d/' % i}
    assert len(fluid.default_main_program().global_block().ops) == before


def test_the_main_thread_keeps_its_guard():
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()), fluid.name_scope('mine'):
        in_threads(build)
        fluid.layers.data('y', [3])
        fluid.layers.fill_constant([1], 'float32', 1.0)
    assert types(main) == ['fill_constant']
    assert main.global_block().ops[0].attr('op_namescope') == '/mine/'


def test_a_thread_without_a_guard_sees_the_main_threads_program():
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()):
        def append(_):
            fluid.layers.fill_constant([1], 'float32', 2.0)
            with fluid.program_guard(fluid.Program(), fluid.Program()):
                fluid.layers.fill_constant([1], 'float32', 3.0)
            return fluid.default_main_program()
        seen, = in_threads(append, 1)
    assert seen == main
    assert types(main) == ['fill_constant']


def test_threads_train_what_they_build():
    def train(i):
        main, startup = build(i, layers=2)
        with fluid.program_guard(main, startup):
            out = fluid.layers.mean(main.global_block().var(main.global_block().ops[-1].output_arg_names[0]))
            fluid.optimizer.SGD(0.1).minimize(out)
            exe = fluid.Executor(fluid.CPUPlace())
            scope = fluid.Scope()
            exe.run(startup, scope=scope)
            feed = {'x': np.ones((2, 4), 'float32')}
            return [exe.run(main, feed=feed, fetch_list=[out], scope=scope)[0].item() for _ in range(3)]
    results = in_threads(train)
    assert all(len(losses) == 3 and losses[0] > losses[2] for losses in results)
