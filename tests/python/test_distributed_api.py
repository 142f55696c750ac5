"""paddle.distributed and the role makers: who this process is, and what ranks say to each other."""
import json
import os
import pathlib
import tempfile
import types

import numpy as np
import pytest

import paddle.distributed
import paddle.distributed.fleet
import paddle.fluid as fluid
import rank_job
from paddle.distributed import environment
from paddle.fluid.incubate.fleet.base import role_maker
from paddle.fluid.incubate.fleet.base.fleet_base import Mode
from paddle.fluid.incubate.fleet.collective import DistributedStrategy, TrainStatus, fleet as ranks
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler import (DistributedTranspiler,
                                                                                StrategyFactory)

WHO = ('PADDLE_TRAINER_ID', 'PADDLE_TRAINERS_NUM', 'PADDLE_TRAINER_ENDPOINTS', 'PADDLE_CURRENT_ENDPOINT',
       'PADDLE_PSERVERS_IP_PORT_LIST', 'TRAINING_ROLE', 'POD_IP', 'PADDLE_PORT', 'PADDLE_TRAINING_ROLE',
       'OMPI_COMM_WORLD_RANK', 'SLURM_PROCID')


@pytest.fixture(autouse=True)
def nobody():
    before = dict(os.environ)
    for name in WHO:
        os.environ.pop(name, None)
    yield
    os.environ.clear()
    os.environ.update(before)


def say(monkeypatch, **env):
    for name, value in env.items():
        monkeypatch.setenv(name, value)


def test_ranks_exchange_what_their_programs_say():
    worker = str(pathlib.Path(__file__).with_name('ranks_api_worker.py'))
    with tempfile.TemporaryDirectory() as logs:
        code, err = rank_job.launch('launch', ['--nproc_per_node', 3, '--log_dir', logs], [worker])
        assert code == 0, err
        for rank in range(3):
            said = json.loads((pathlib.Path(logs) / f'workerlog.{rank}').read_text().splitlines()[-1])
            assert said == {'sum': [6, -3], 'max': [3, 0], 'min': [1, -2], 'prod': [6, 0], 'root': [2, -1],
                            'inner_max': [3, 0], 'inner_rows': [1, 0, 2, -1, 3, -2], 'inner_root': [3, -2],
                            '0': [1, 0], '1': [2, -1], '2': [3, -2], 'worker_sum': [33]}


def test_alone_a_process_is_rank_0_of_1():
    assert (paddle.distributed.get_rank(), paddle.distributed.get_world_size()) == (0, 1)
    paddle.distributed.init_parallel_env()
    paddle.distributed.barrier()


def test_ranks_come_from_mpirun(monkeypatch):
    say(monkeypatch, OMPI_COMM_WORLD_RANK='1', OMPI_COMM_WORLD_SIZE='2', OMPI_COMM_WORLD_LOCAL_SIZE='2')
    env = paddle.distributed.ParallelEnv()
    assert (env.rank, env.world_size) == (1, 2)
    assert env.trainer_endpoints == ['127.0.0.1:6170', '127.0.0.1:6171']
    assert env.current_endpoint == '127.0.0.1:6171'


def test_ranks_come_from_slurm(monkeypatch):
    say(monkeypatch, SLURM_PROCID='3', SLURM_NTASKS='4', SLURM_JOB_NODELIST='one,two', PADDLE_PORT='7000')
    env = paddle.distributed.ParallelEnv()
    assert env.rank == 3
    assert env.trainer_endpoints == ['one:7000', 'one:7001', 'two:7000', 'two:7001']


@pytest.mark.parametrize('nodes, hosts', [
    ('a,n[01-03,7]', ['a', 'n01', 'n02', 'n03', 'n7']), ('n[09-10]', ['n09', 'n10']),
    ('rack[1-2]node[3,4].x', ['rack1node3.x', 'rack1node4.x', 'rack2node3.x', 'rack2node4.x']),
])
def test_slurms_list_of_machines_is_taken_apart(monkeypatch, nodes, hosts):
    say(monkeypatch, SLURM_PROCID='0', SLURM_NTASKS=str(len(hosts)), SLURM_JOB_NODELIST=nodes, PADDLE_PORT='7000')
    assert paddle.distributed.ParallelEnv().trainer_endpoints == [f'{host}:7000' for host in hosts]


def test_a_list_that_is_none_is_named(monkeypatch):
    say(monkeypatch, SLURM_PROCID='0', SLURM_NTASKS='2', SLURM_JOB_NODELIST='n[a-b]')
    with pytest.raises(ValueError, match='SLURM_JOB_NODELIST'):
        paddle.distributed.ParallelEnv()


def test_machines_without_addresses_are_refused(monkeypatch):
    say(monkeypatch, OMPI_COMM_WORLD_RANK='1', OMPI_COMM_WORLD_SIZE='4', OMPI_COMM_WORLD_LOCAL_SIZE='2')
    with pytest.raises(ValueError, match='set PADDLE_TRAINER_ENDPOINTS'):
        paddle.distributed.ParallelEnv()


def test_a_number_that_is_none_is_named(monkeypatch):
    say(monkeypatch, PADDLE_TRAINER_ID='first')
    with pytest.raises(ValueError, match="PADDLE_TRAINER_ID is 'first'"):
        environment.ParallelEnv()


def test_roles_come_from_the_environment(monkeypatch):
    say(monkeypatch, PADDLE_PSERVERS_IP_PORT_LIST='a:1,b:2', PADDLE_TRAINERS_NUM='3', TRAINING_ROLE='PSERVER',
        POD_IP='b', PADDLE_PORT='2')
    role = role_maker.PaddleCloudRoleMaker()
    assert role.is_server() and role.server_index() == 1 and role.server_num() == 2 and role.worker_num() == 3
    assert role.get_current_endpoint() == 'b:2'
    say(monkeypatch, TRAINING_ROLE='TRAINER', PADDLE_TRAINER_ID='2')
    role = role_maker.PaddleCloudRoleMaker()
    assert role.is_worker() and role.worker_index() == 2 and not role.is_first_worker()


@pytest.mark.parametrize('env, text', [
    ({}, 'PADDLE_PSERVERS_IP_PORT_LIST is not in the environment'),
    ({'PADDLE_PSERVERS_IP_PORT_LIST': 'a:1', 'PADDLE_TRAINERS_NUM': '1'}, 'TRAINING_ROLE is'),
    ({'PADDLE_PSERVERS_IP_PORT_LIST': 'a:1', 'PADDLE_TRAINERS_NUM': '1', 'TRAINING_ROLE': 'PSERVER',
      'POD_IP': 'c', 'PADDLE_PORT': '1'}, 'c:1, which is not among'),
])
def test_an_environment_that_does_not_say_who_this_is_is_refused(monkeypatch, env, text):
    say(monkeypatch, **env)
    with pytest.raises(ValueError, match=text):
        role_maker.PaddleCloudRoleMaker().generate_role()


@pytest.mark.parametrize('wrong', [dict(current_id=2), dict(worker_num=0), dict(server_endpoints=['a:1', 'a:1'])])
def test_roles_that_cannot_be_are_refused(wrong):
    with pytest.raises(ValueError):
        role_maker.UserDefinedRoleMaker(**{'current_id': 0, 'role': role_maker.Role.WORKER, 'worker_num': 2,
                                           'server_endpoints': ['a:1', 'b:1'], **wrong})


def test_files_are_shared_out_in_pieces():
    role = role_maker.UserDefinedRoleMaker(1, role_maker.Role.WORKER, 3, ['127.0.0.1:1'])
    fleet = DistributedTranspiler()
    fleet.init(role)
    assert fleet.split_files(list('abcdefgh')) == ['d', 'e', 'f']
    assert fleet.server_endpoints(to_string=True) == '127.0.0.1:1' and fleet.is_worker()
    with pytest.raises(TypeError, match='files must be a list'):
        fleet.split_files('abc')


def test_fleet_before_init_says_so():
    for call in (lambda: DistributedTranspiler().worker_num(), lambda: paddle.distributed.fleet.worker_num()):
        with pytest.raises(RuntimeError, match='fleet.init'):
            call()


def test_a_strategy_is_a_build_strategy_with_more():
    strategy = DistributedStrategy()
    strategy.use_local_sgd = True
    strategy.nccl_comm_num = 2
    with pytest.raises(AttributeError, match='did you mean fuse_bn_act_ops'):
        strategy.fuse_bn_act_op = True
    with pytest.raises(NotImplementedError, match='use_dist_fc'):
        strategy.use_dist_fc = True
        ranks.distributed_optimizer(fluid.optimizer.SGD(0.1), strategy)


def test_strategies_keep_what_makes_them_so():
    strategy = StrategyFactory.create_sync_strategy()
    strategy.set_program_config({'slice_var_up': False, 'completely_not_async': False})
    config = strategy.get_program_config()
    assert (config.slice_var_up, config.completely_not_async, config.sync_mode) == (False, True, False)
    assert StrategyFactory.create_geo_strategy(7).get_program_config().geo_sgd_need_push_nums == 7
    with pytest.raises(TypeError, match='config must be a dict'):
        strategy.set_program_config(3)


def test_fields_of_a_strategy_that_do_nothing_are_refused():
    strategy = paddle.distributed.fleet.DistributedStrategy()
    strategy.pipeline = False  # not asked for
    with pytest.raises(NotImplementedError, match='DistributedStrategy.pipeline'):
        strategy.pipeline = True


def test_checkpoints_of_ranks_are_numbered_and_come_back(tmp_path):
    x = fluid.layers.data('x', [2])
    fluid.optimizer.SGD(0.1).minimize(fluid.layers.mean(fluid.layers.fc(x, 1, param_attr='w')))
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    ranks._origin_main_program = fluid.default_main_program()
    assert ranks.load_check_point(exe, str(tmp_path)) is None
    for epoch in (3, 4):
        ranks.save_check_point(exe, str(tmp_path), TrainStatus(epoch))
    whole = np.array(fluid.global_scope().find_var('w').get_tensor())
    exe.run(fluid.default_startup_program())
    assert ranks.load_check_point(exe, str(tmp_path)) == TrainStatus(4)
    np.testing.assert_array_equal(np.array(fluid.global_scope().find_var('w').get_tensor()), whole)
    ranks.clean_redundant_check_points(str(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ['__paddle_fleet_checkpoint__.1']


def test_modes_have_their_numbers():
    assert isinstance(Mode, type) and (Mode.TRANSPILER, Mode.PSLIB, Mode.COLLECTIVE) == (1, 2, 3)
    assert isinstance(role_maker.Role, type) and (role_maker.Role.WORKER, role_maker.Role.SERVER) == (1, 2)
    assert isinstance(paddle.distributed.fleet, types.ModuleType)


def test_a_communicator_of_a_geo_program_knows_its_trainers():
    from paddle.fluid.communicator import Communicator
    with pytest.raises(ValueError, match='geo_need_push_nums'):
        Communicator(fluid.Program(), 3, {'trainers': 2})
    with pytest.raises(RuntimeError, match='not made for parameter servers'):
        Communicator(fluid.Program(), 3, {'trainers': 2, 'geo_need_push_nums': 5}).start()
