"""Seeds: what an op draws hangs on its place among the random ops of its program, never on names."""
import numpy as np
import paddle.fluid as fluid


def values_of(startup):
    """What a startup program gives its variables, in the order of its ops."""
    with fluid.scope_guard(fluid.Scope()):
        fluid.Executor(fluid.CPUPlace()).run(startup)
        return [np.array(fluid.global_scope().find_var(op.output_arg_names[0]).get_tensor())
                for op in startup.global_block().ops]


def net(seed=7):
    main, startup = fluid.Program(), fluid.Program()
    main.random_seed = startup.random_seed = seed
    with fluid.program_guard(main, startup):
        x = fluid.data('x', [None, 8], 'float32')
        hidden = fluid.layers.fc(x, size=8, act='relu')
        hidden = fluid.layers.dropout(hidden, 0.5)
        hidden = fluid.layers.fc(hidden, size=8, param_attr=fluid.initializer.Normal())
        hidden = fluid.layers.fc(hidden, size=8, param_attr=fluid.initializer.TruncatedNormal())
        out = fluid.layers.dropout(hidden, 0.5)
    return main, startup, out


def run(main, out, feed=None):
    """Three runs of the program in a fresh scope that its twins share in everything but the names."""
    exe = fluid.Executor(fluid.CPUPlace())
    feed = feed or {'x': np.ones((16, 8), 'float32')}
    return [exe.run(main, feed=feed, fetch_list=[out])[0] for _ in range(3)]


def test_the_same_program_built_twice_starts_equal():
    (_, first, _), (_, second, _) = net(), net()  # no guard: names differ
    assert [op.output_arg_names for op in first.global_block().ops] != \
        [op.output_arg_names for op in second.global_block().ops]
    for a, b in zip(values_of(first), values_of(second)):
        np.testing.assert_array_equal(a, b)


def test_another_seed_starts_elsewhere():
    a, b = values_of(net(7)[1]), values_of(net(8)[1])
    assert any(not np.array_equal(x, y) for x, y in zip(a, b))


def test_parameters_of_one_shape_and_one_initializer_differ():
    startup = fluid.Program()
    startup.random_seed = 3
    with fluid.program_guard(fluid.Program(), startup):
        x = fluid.data('x', [None, 4], 'float32')
        for _ in range(3):
            x = fluid.layers.fc(x, size=4, bias_attr=False)
    weights = values_of(startup)
    assert len(weights) == 3
    for i in range(3):
        for j in range(i):
            assert not np.array_equal(weights[i], weights[j])


def test_with_the_originals_numbers_they_are_equal():
    fluid.set_flags({'FLAGS_original_random': True})
    try:
        test_parameters_of_one_shape_and_one_initializer_differ()
    except AssertionError:
        return
    finally:
        fluid.set_flags({'FLAGS_original_random': False})
    raise AssertionError('the original starts every op from the seed')


def dropped_twice(program, out):
    with fluid.scope_guard(fluid.Scope()):
        return run(program, out)


def masks():
    """A program without parameters whose result shows what it drops."""
    main = fluid.Program()
    main.random_seed = 5
    with fluid.program_guard(main, fluid.Program()):
        x = fluid.data('x', [None, 8], 'float32')
        unused = fluid.layers.dropout(x, 0.5)
        kept = fluid.layers.dropout(fluid.layers.scale(x, 2.0), 0.5)
    return main, unused, kept


def test_programs_built_twice_drop_the_same():
    (first, _, a), (second, _, b) = masks(), masks()
    assert a.name != b.name
    for x, y in zip(dropped_twice(first, a), dropped_twice(second, b)):
        np.testing.assert_array_equal(x, y)


def test_clones_pruned_and_saved_programs_draw_what_the_program_draws():
    main, unused, out = masks()
    wanted = dropped_twice(main, out)
    assert not np.array_equal(wanted[0], dropped_twice(main, unused)[0] * 2)
    copies = {'a clone': main.clone(), 'a pruned one': main._prune([out]),
              'a saved one': fluid.Program.parse_from_string(main.desc.serialize_to_string())}
    assert len(copies['a pruned one'].global_block().ops) < len(main.global_block().ops)
    for name, program in copies.items():
        for x, y in zip(wanted, dropped_twice(program, out.name)):
            np.testing.assert_array_equal(x, y, err_msg=name)


def test_ops_added_to_a_copy_draw_numbers_of_their_own():
    main, _, out = masks()
    copy = main.clone()
    with fluid.program_guard(copy, fluid.Program()):
        x = copy.global_block().var('x')
        later = fluid.layers.dropout(fluid.layers.scale(x, 2.0), 0.5)
    assert not np.array_equal(dropped_twice(copy, later)[0], dropped_twice(main, out)[0])


def test_without_a_seed_programs_of_one_form_differ():
    a, b = (values_of(net(0)[1]) for _ in range(2))
    assert any(not np.array_equal(x, y) for x, y in zip(a, b))


def test_a_program_of_the_original_has_positions_too():
    """Its files do not say where an op stands: their order does."""
    main, _, out = masks()
    wanted = dropped_twice(main, out)
    for op in main.global_block().ops:
        if op.has_attr('random_position'):
            op._remove_attr('random_position')
    program = fluid.Program.parse_from_string(main.desc.serialize_to_string())
    positions = [op.attr('random_position') for op in program.global_block().ops if op.type == 'dropout']
    assert positions == [0, 1]
    for x, y in zip(wanted, dropped_twice(program, out.name)):
        np.testing.assert_array_equal(x, y)
