"""fluid.transpiler: what only Python says, and the documented calls end to end."""
import contextlib
import inspect
import socket

import numpy as np
import pytest

import paddle.fluid as fluid
from paddle.fluid.transpiler import details
from paddle.fluid.transpiler.distribute_transpiler import (DistributedMode, ServerRuntimeConfig,
                                                           same_or_split_var, slice_variable)
from paddle.fluid.transpiler.geo_sgd_transpiler import GeoSgdTranspiler
from paddle.fluid.transpiler.ps_dispatcher import PSDispatcher

SERVERS = '127.0.0.1:6174,127.0.0.1:6175'
EP0, EP1 = SERVERS.split(',')


@pytest.fixture
def short_wait():
    before = fluid.get_flags('FLAGS_rpc_deadline')
    fluid.set_flags({'FLAGS_rpc_deadline': 100})
    yield
    fluid.set_flags(before)


def net(optimizer=None, width=1000):
    x = fluid.layers.data('x', [width])
    y = fluid.layers.data('y', [width])
    out = fluid.layers.fc(x, width, param_attr='fc_w', bias_attr='fc_b')
    loss = fluid.layers.mean(fluid.layers.square_error_cost(out, y))
    (optimizer or fluid.optimizer.SGD(0.1)).minimize(loss)
    return loss


def types(program):
    return [op.type for op in program.global_block().ops]


def transpiled(config=None, **more):
    t = fluid.DistributeTranspiler(config)
    t.transpile(0, pservers=SERVERS, trainers=2, **more)
    return t


# ---- config

def test_defaults():
    config = fluid.DistributeTranspilerConfig()
    assert (config.slice_var_up, config.split_method, config.min_block_size) == (True, None, 8192)
    assert (config.enable_dc_asgd, config.mode, config.print_log) == (False, 'pserver', False)
    assert (config.wait_port, config.sync_mode) == (True, True)
    assert (config.runtime_split_send_recv, config.geo_sgd_mode) == (False, False)
    assert (config.geo_sgd_need_push_nums, config.half_async) == (100, False)
    assert (config.completely_not_async, config.nccl_comm_num) == (False, 1)
    assert (config.use_hierarchical_allreduce, config.collective_mode) == (False, None)
    assert config.hierarchical_allreduce_inter_nranks == 0
    assert [DistributedMode.SYNC, DistributedMode.ASYNC, DistributedMode.HALF_ASYNC,
            DistributedMode.GEO] == [0, 1, 2, 3]


def test_contradictions_are_refused_when_they_are_set():
    config = fluid.DistributeTranspilerConfig()
    with pytest.raises(ValueError, match='runtime_split_send_recv.*sync_mode'):
        config.runtime_split_send_recv = True
    config.sync_mode = False
    config.runtime_split_send_recv = True
    with pytest.raises(ValueError, match='sync_mode.*runtime_split_send_recv'):
        config.sync_mode = True
    for name in ('sync_mode', 'runtime_split_send_recv'):
        with pytest.raises(ValueError, match='None'):
            setattr(config, name, None)


def test_a_misspelt_field_is_an_error():
    config = fluid.DistributeTranspilerConfig()
    with pytest.raises(AttributeError, match='did you mean slice_var_up'):
        config.slice_var = False


def test_config_errors():
    config = fluid.DistributeTranspilerConfig()
    config.min_block_size = 100
    with pytest.raises(AssertionError, match='min_block_size is 100'):
        fluid.DistributeTranspiler(config)
    config = fluid.DistributeTranspilerConfig()
    config.mode = 'other'
    with pytest.raises(ValueError, match="mode is 'other'"):
        fluid.DistributeTranspiler(config)
    config = fluid.DistributeTranspilerConfig()
    for wrong in (7, 'RoundRobin', PSDispatcher, dict):
        config.split_method = wrong
        with pytest.raises(AssertionError, match='split_method must be a class'):
            fluid.DistributeTranspiler(config)
    with pytest.raises(TypeError, match='config must be'):
        fluid.DistributeTranspiler({'mode': 'nccl2'})


def test_config_is_not_written_to():
    net()
    config = fluid.DistributeTranspilerConfig()
    transpiled(config)
    assert vars(config) == {}


# ---- dispatchers

def test_own_dispatchers_and_subclasses():
    class Second(fluid.transpiler.RoundRobin):
        def dispatch(self, varlist):
            assert all(isinstance(var.name, str) and var.shape for var in varlist)
            return [self.eps[1] for _ in varlist]

    net()
    config = fluid.DistributeTranspilerConfig()
    config.split_method = Second
    t = transpiled(config)
    sends = [op for op in t.get_trainer_program(False).global_block().ops if op.type == 'send']
    assert {ep for op in sends for ep in op.attr('epmap')} == {EP1}


def test_hash_name_is_the_same_everywhere():
    net()
    config = fluid.DistributeTranspilerConfig()
    config.split_method = fluid.transpiler.HashName
    t = transpiled(config)
    dispatcher = fluid.transpiler.HashName([EP0, EP1])
    main = t.get_trainer_program(False)
    for op in main.global_block().ops:
        if op.type == 'recv':
            slices = [main.global_block().var(name) for name in op.output('Out')]
            assert op.attr('epmap') == dispatcher.dispatch(slices)
    with pytest.raises(TypeError, match='is a list with at least one'):
        fluid.transpiler.HashName(SERVERS)


def test_slice_variable():
    program = fluid.Program()
    block = program.global_block()
    var = block.create_var(name='w', shape=[7, 5000], dtype='float32')
    assert slice_variable([var], 4, 8192) == ['w:0:10000', 'w:1:10000', 'w:2:10000', 'w:3:5000']
    assert same_or_split_var('w.block1', 'w') and not same_or_split_var('w2', 'w')


# ---- transpile

def test_pserver_programs_of_the_document():
    net()
    t = transpiled()
    with pytest.warns(UserWarning, match='deprecated'):
        server = t.get_pserver_program(EP0)
    with pytest.warns(UserWarning, match='deprecated'):
        startup = t.get_startup_program(EP0, server)
    assert types(startup) == ['fill_constant', 'fill_constant', 'uniform_random']
    trainer = t.get_trainer_program(wait_port=False)
    assert trainer is fluid.default_main_program()
    assert trainer._is_distributed and trainer._is_chief and trainer._endpoints == [EP0, EP1]
    with pytest.warns(UserWarning, match='another startup_program'):
        t.get_startup_program(EP0, startup_program=fluid.Program())
    with pytest.raises(KeyError, match='not among pservers'):
        t.get_pserver_program('127.0.0.1:1')
    with pytest.raises(RuntimeError, match="in mode 'pserver'"):
        transpiled()


def test_old_keywords():
    net()
    config = fluid.DistributeTranspilerConfig()
    config.mode = 'nccl2'
    t = fluid.DistributeTranspiler(config)
    with pytest.raises(ValueError, match='both given'):
        t.transpile(0, trainers=SERVERS, workers=SERVERS, current_endpoint=EP0)
    with pytest.raises(ValueError, match='both given'):
        t.transpile(0, None, SERVERS, 1, workers=SERVERS, current_endpoint=EP0)
    with pytest.warns(UserWarning, match='workers'):
        t.transpile(0, workers=SERVERS, current_endpoint=EP0)
    assert fluid.default_main_program()._trainers_endpoints == [EP0, EP1]
    with pytest.raises(NotImplementedError, match='config.mode = "nccl2"'):
        t.transpile_nccl2()
    with pytest.raises(RuntimeError, match='no parameter servers'):
        t.get_trainer_program(False)


def test_slice_var_up_keyword():
    net()
    t = fluid.DistributeTranspiler()
    with pytest.warns(UserWarning, match='slice_var_up'):
        t.transpile(0, pservers=SERVERS, trainers=2, slice_var_up=False)
    assert 'split_byref' not in types(t.get_trainer_program(False))
    config = fluid.DistributeTranspilerConfig()
    config.slice_var_up = False
    with pytest.raises(ValueError, match='both given'):
        fluid.DistributeTranspiler(config).transpile(0, pservers=SERVERS, trainers=2,
                                                     slice_var_up=False)


def test_argument_errors():
    net()
    t = fluid.DistributeTranspiler()
    with pytest.raises(TypeError, match='must be a number'):
        t.transpile(0, pservers=SERVERS, trainers='2')
    with pytest.raises(TypeError, match='program must be a Program'):
        t.transpile(0, program='main')
    with pytest.raises(TypeError, match='pservers must be a string'):
        t.transpile(0, pservers=[EP0])
    with pytest.raises(ValueError, match='is there twice'):
        t.transpile(0, pservers=f'{EP0},{EP0}')
    with pytest.raises(RuntimeError, match='call transpile first'):
        t.get_trainer_program()
    config = fluid.DistributeTranspilerConfig()
    config.mode = 'nccl2'
    with pytest.raises(AssertionError, match='must be a string'):
        fluid.DistributeTranspiler(config).transpile(0, trainers=2)
    with pytest.warns(UserWarning, match='servers will update nothing: call minimize before transpile'):
        t.transpile(0, program=fluid.Program(), startup_program=fluid.Program())


def configured(**fields):
    config = fluid.DistributeTranspilerConfig()
    for name, value in fields.items():
        setattr(config, name, value)
    return config


GRAD_ALLREDUCE = {'mode': 'collective', 'collective_mode': 'grad_allreduce'}
HIERARCHICAL = {'mode': 'nccl2', 'use_hierarchical_allreduce': True}
RANKS = {'trainers': SERVERS, 'current_endpoint': EP0}


# Each names the argument, its value and what is allowed.
@pytest.mark.parametrize('kind, text, fields, arguments', [
    (AssertionError, r'min_block_size is 8191 but must be at least 8192', {'min_block_size': 8191},
     {}),
    (AssertionError, r'split_method must be a class derived from PSDispatcher', {'split_method': 3},
     {}),
    (ValueError, r"mode is 'ps' but must be 'pserver', 'nccl2' or 'collective'", {'mode': 'ps'},
     {}),
    (TypeError, r"DistributeTranspilerConfig.min_block_size is 'big', a str", {
        'min_block_size': 'big'}, {}),
    (AssertionError, r'enable_dc_asgd is True while sync_mode is True', {'enable_dc_asgd': True},
     {}),
    (ValueError, r'half_async is True while runtime_split_send_recv is False',
     {'sync_mode': False, 'half_async': True}, {}),
    (ValueError, r'geo_sgd_mode and enable_dc_asgd are both True',
     {'sync_mode': False, 'geo_sgd_mode': True, 'enable_dc_asgd': True}, {}),
    (ValueError, r'nccl_comm_num is 0 but must be at least 1', {'nccl_comm_num': 0}, {}),
    (TypeError, r'trainers .* in pserver mode must be a number', {}, {'trainers': '2'}),
    (ValueError, r'trainers is 0 but must be at least 1', {}, {'trainers': 0}),
    (TypeError, r"trainer_id must be a whole number, got '0'", {}, {'trainer_id': '0'}),
    (ValueError, r"pservers is '127.0.0.1': .* not of the form ip:port", {},
     {'pservers': '127.0.0.1'}),
    (ValueError, r'one of its endpoints is blank', {}, {'pservers': EP0 + ','}),
    (ValueError, r'is there twice', {}, {'pservers': f'{EP0},{EP0}'}),
    (TypeError, r'pservers must be a string', {}, {'pservers': [EP0]}),
    (TypeError, r'startup_program must be a Program, got int', {}, {'startup_program': 3}),
    (AssertionError, r'trainers must be a string', {'mode': 'nccl2'}, {'trainers': 2}),
    (AssertionError, r'trainers must be a string', {'mode': 'nccl2'}, {'trainers': [EP0, EP1]}),
    (ValueError, r'trainer_id is -1 but must be from 0 to 1', {'mode': 'nccl2'},
     {'trainer_id': -1, **RANKS}),
    (ValueError, r'current_endpoint is 127.0.0.1:1, which is not among trainers', {'mode': 'nccl2'},
     {**RANKS, 'current_endpoint': '127.0.0.1:1'}),
    (AssertionError, r'inter_nranks is 2 for 2 trainers',
     {**HIERARCHICAL, 'hierarchical_allreduce_inter_nranks': 2}, RANKS),
    (AssertionError, r'inter_nranks is 2 for 3 trainers',
     {**HIERARCHICAL, 'hierarchical_allreduce_inter_nranks': 2},
     {**RANKS, 'trainers': SERVERS + ',127.0.0.1:6176'}),
    (ValueError, r'trainers must be a number, a string or a list, got tuple', GRAD_ALLREDUCE,
     {**RANKS, 'trainers': (EP0, EP1)}),
    (ValueError, r'trainers names one endpoint', GRAD_ALLREDUCE, {**RANKS, 'trainers': EP0}),
    (ValueError, r'collective_mode is None', {'mode': 'collective'}, RANKS),
    (ValueError, r"collective_mode is 'other' but must be", {
        'mode': 'collective', 'collective_mode': 'other'}, RANKS),
    (ValueError, r'trainer_id is -1 but must be', GRAD_ALLREDUCE, {**RANKS, 'trainer_id': -1}),
    (ValueError, r'current_endpoint is 127.0.0.1:1', GRAD_ALLREDUCE,
     {**RANKS, 'current_endpoint': '127.0.0.1:1'}),
])
def test_errors_of_configs_and_arguments(kind, text, fields, arguments):
    net(width=16)
    before = str(fluid.default_main_program()), str(fluid.default_startup_program())
    with pytest.raises(kind, match=text):
        fluid.DistributeTranspiler(configured(**fields)).transpile(
            **{'trainer_id': 0, 'pservers': SERVERS, 'trainers': 2, **arguments})
    assert before == (str(fluid.default_main_program()), str(fluid.default_startup_program()))


def test_a_number_of_ranks_is_enough_for_threads():
    net(width=16)
    config = configured(mode='collective', collective_mode='single_process_multi_thread')
    fluid.DistributeTranspiler(config).transpile(0, trainers=2)
    assert types(fluid.default_startup_program())[-1] == 'c_comm_init_all'


@pytest.mark.parametrize('get', [
    lambda t: t.get_trainer_program(False), lambda t: t.get_pserver_program(EP0),
    lambda t: t.get_pserver_programs(EP0), lambda t: t.get_startup_program(EP0)])
def test_programs_of_servers_need_transpile_and_servers(get):
    with pytest.raises(RuntimeError, match='call transpile first'):
        get(fluid.DistributeTranspiler())
    net(width=16)
    t = fluid.DistributeTranspiler(configured(mode='nccl2'))
    t.transpile(0, **RANKS)
    with pytest.raises(RuntimeError, match="mode is 'nccl2', which has no parameter servers"):
        get(t)


def test_a_trainer_needs_an_id_of_a_trainer():
    net(width=16)
    t = fluid.DistributeTranspiler()
    for number in (-1, 2, 7):
        with pytest.raises(ValueError, match=f'trainer_id is {number} but must be from 0 to 1'):
            t.transpile(number, pservers=SERVERS, trainers=2)


def test_server_threads():
    net()
    t = fluid.DistributeTranspiler()
    threads = ServerRuntimeConfig()
    threads._rpc_send_thread_num = 3
    with pytest.raises(TypeError, match='ServerRuntimeConfig'):
        t._set_server_config(7)
    t._set_server_config(threads)
    t.transpile(0, pservers=SERVERS, trainers=2)
    serve = t.get_pserver_programs(EP0)[0].global_block().ops[0]
    assert serve.attr('rpc_send_thread_num') == 3 and serve.attr('rpc_get_thread_num') == 12


def test_a_trainer_without_servers_says_which_one_it_cannot_reach(exe, short_wait):
    net()
    transpiled().get_trainer_program(wait_port=False)
    with pytest.raises(RuntimeError, match=f'server {EP0} cannot be reached for fc_b'):
        exe.run(fluid.default_startup_program())


def test_geo():
    net()
    t = GeoSgdTranspiler()
    t.transpile(0, pservers=SERVERS, trainers=2)
    assert types(t.get_trainer_program(False))[-3:] == ['sgd', 'sgd', 'send']
    server, startup = t.get_pserver_programs(EP0)
    assert [types(server)] + [[op.type for op in b.ops] for b in server.blocks[1:]] == [
        ['listen_and_serv'], ['sum'], ['sum']]
    assert server.global_block().ops[0].attr('distributed_mode') == DistributedMode.GEO
    assert 'uniform_random' in types(startup)
    assert t.trainer_startup_program is fluid.default_startup_program()
    assert t._get_vars_info() == {
        'fc_b': {'var_names': ['fc_b'], 'sections': ['1000'], 'epmap': [EP0],
                 'is_sparse': ['False']},
        'fc_w': {'var_names': ['fc_w.block0', 'fc_w.block1'], 'sections': ['500', '500'],
                 'epmap': [EP1, EP0], 'is_sparse': ['False']}}


def test_slices_are_recorded():
    net(fluid.optimizer.Adam(0.1))
    transpiled()
    slices = fluid.default_main_program()._parameters_on_pservers
    part = slices.get_distributed_var_by_slice('fc_w.block1')
    assert (part.vtype, part.offset, part.endpoint) == ('Param', 500000, EP0)
    assert {v.vtype for v in slices.get_distributed_vars_by_ep(EP1)} == {'Param', 'Optimizer'}
    assert 'fc_w.block0' in slices.overview()


def test_a_server_loads_its_rows_from_whole_files(exe, tmp_path):
    net(width=128)
    exe.run(fluid.default_startup_program())
    whole = np.array(fluid.global_scope().find_var('fc_w').get_tensor())
    fluid.io.save_persistables(exe, str(tmp_path))
    t = transpiled()
    for endpoint in (EP0, EP1):
        server, startup = t.get_pserver_programs(endpoint)
        with fluid.scope_guard(fluid.Scope()):
            exe.run(startup)
            fluid.io.load_persistables(exe, str(tmp_path), server)
            for var in server._parameters_on_pservers.get_distributed_vars_by_ep(endpoint, 'Param'):
                if var.origin.name != 'fc_w':
                    continue
                rows = np.array(fluid.global_scope().find_var(var.slice.name).get_tensor())
                first = var.offset // 128 if var.is_slice else 0
                np.testing.assert_array_equal(rows, whole[first:first + len(rows)])


def test_the_chief_saves_what_servers_keep(exe, tmp_path):
    for trainer in (0, 1):
        main, startup = fluid.Program(), fluid.Program()
        with fluid.unique_name.guard(), fluid.program_guard(main, startup):
            net(fluid.optimizer.Adam(0.1), width=128)
        with fluid.scope_guard(fluid.Scope()):
            exe.run(startup)
            t = fluid.DistributeTranspiler()
            t.transpile(trainer, main, SERVERS, 2, startup_program=startup)
            where = tmp_path / str(trainer)
            if trainer == 0:
                fluid.set_flags({'FLAGS_rpc_deadline': 200})
                try:
                    with pytest.raises(RuntimeError, match='127.0.0.1:6174 cannot be reached'):
                        fluid.io.save_persistables(exe, str(where), main)
                finally:
                    fluid.set_flags({'FLAGS_rpc_deadline': 180000})
            else:
                fluid.io.save_persistables(exe, str(where), main)
            assert sorted(path.name for path in where.iterdir()) == ['.trireme.sums', 'fc_b', 'fc_w']


# ---- waiting

@contextlib.contextmanager
def listener():
    with socket.socket() as up:
        up.bind(('127.0.0.1', 0))
        up.listen()
        yield '127.0.0.1:%d' % up.getsockname()[1]


def test_wait_server_ready():
    with listener() as there:
        details.wait_server_ready([there])
    with pytest.raises(RuntimeError, match=there):
        details.wait_server_ready([there], timeout=0.3)
    with pytest.raises(AssertionError):
        details.wait_server_ready(there)
    assert inspect.signature(details.wait_server_ready).parameters['timeout'].default == 180


@pytest.mark.filterwarnings('ignore:waiting for')
def test_runs_wait_for_servers_and_transpiling_does_not(exe, short_wait):
    net(width=16)
    with listener() as gone:
        pass
    with listener() as there:
        t = fluid.DistributeTranspiler()
        t.transpile(0, pservers=f'{there},{gone}', trainers=2)
        trainer = t.get_trainer_program()
        for program in (fluid.default_startup_program(), trainer):
            with pytest.raises(RuntimeError, match=f'after 0.1 s .* connections: {gone}') as error:
                exe.run(program)
            assert there not in str(error.value)
        compiled = fluid.CompiledProgram(trainer)
        with pytest.raises(RuntimeError, match=f'connections: {gone}'):
            exe.run(compiled, feed={'x': np.ones((2, 16), 'float32'),
                                    'y': np.ones((2, 16), 'float32')})


@pytest.mark.filterwarnings('ignore:waiting for')
def test_the_first_rank_waits_when_its_startup_program_runs(exe, short_wait):
    net(width=16)
    with listener() as gone:
        pass
    config = configured(mode='nccl2')
    fluid.DistributeTranspiler(config).transpile(0, trainers=f'{EP0},{gone}', current_endpoint=EP0)
    with pytest.raises(RuntimeError, match=f'connections: {gone}'):
        exe.run(fluid.default_startup_program())


# ---- clips

@pytest.mark.filterwarnings('ignore:set_gradient_clip')
@pytest.mark.parametrize('clip, ops', [
    (lambda: fluid.clip.GradientClipByValue(1.0), ['clip']),
    (lambda: fluid.clip.GradientClipByNorm(1.0), ['clip_by_norm']),
    (lambda: fluid.clip.GradientClipByGlobalNorm(1.0), ['elementwise_mul']),
    (lambda: fluid.clip.GradientClipByGlobalNorm(1.0, 'group'), ['elementwise_mul'])])
@pytest.mark.parametrize('way', ['optimizer', 'program', 'list'])
def test_servers_clip_the_average_whoever_asked(clip, ops, way):
    x = fluid.layers.data('x', [1000])
    out = fluid.layers.fc(x, 1000, param_attr='fc_w', bias_attr='fc_b')
    loss = fluid.layers.mean(out)
    if way == 'optimizer':
        fluid.optimizer.SGD(0.1, grad_clip=clip()).minimize(loss)
    else:
        fluid.clip.set_gradient_clip(clip(), None if way == 'program' else ['fc_w', 'fc_b'])
        fluid.optimizer.SGD(0.1).minimize(loss)
    t = transpiled()
    trainer = t.get_trainer_program(wait_port=False)
    assert not any('clip' in op.type or op.type == 'elementwise_mul'
                   for op in trainer.global_block().ops)
    server, _ = t.get_pserver_programs(EP1)
    last = [op.type for op in server.blocks[-1].ops]
    assert last[-2:] == ops + ['sgd']
    if ops != ['elementwise_mul']:
        assert last[:2] == ['sum', 'scale']
