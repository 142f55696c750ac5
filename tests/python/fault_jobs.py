"""Small jobs whose processes are ended at random moments: `fault_jobs.py COUNT [SEED [servers|ranks]]`.

Every update takes exactly 1 from the one parameter, so each trainer knows after each step what it must have
received: an update that was lost or applied twice shows at once. A job ends by itself, inside its limit,
and whoever is left names who was ended, with exit code 1; or it was done before. A server with snapshots that
is killed is started again, as the launcher does, and then all must end well. Some jobs find the port of a server
taken by another process: the server says so, and trainers do not wait for ever. Prints how many there were of each."""
import atexit
import collections
import os
import random
import shutil
import signal
import socket
import sys
import tempfile
import time
import traceback

import numpy as np
import paddle.fluid as fluid

LIMIT = 60.0  # seconds of one job: a server that is stopped is missed after some fifteen
STEPS = 30
Job = collections.namedtuple('Job', 'kind roles victim how outcome')


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(('127.0.0.1', 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ['127.0.0.1:%d' % port for port in ports]


def build():
    x = fluid.layers.data('x', [1])
    out = fluid.layers.fc(x, 1, param_attr=fluid.ParamAttr('w', initializer=fluid.initializer.Constant(0.0)),
                          bias_attr=False)
    loss = fluid.layers.mean(out)
    fluid.optimizer.SGD(1.0).minimize(loss)
    return loss


def steps(run, where):
    feed = {'x': np.ones([4, 1], 'float32')}
    for step in range(STEPS):
        run(feed)
        found = np.array(fluid.global_scope().find_var('w').get_tensor()).item()
        if found != -(step + 1):
            print('WRONG COUNT after step', step, found, flush=True)
            os._exit(7)
        if where and step == STEPS // 2:
            fluid.io.save_persistables(fluid.Executor(fluid.CPUPlace()), where)
        time.sleep(0.01)


def server_or_trainer(role, index, servers, trainers, where):
    build()
    transpiler = fluid.DistributeTranspiler()
    transpiler.transpile(index if role == 'trainer' else 0, pservers=','.join(servers), trainers=trainers)
    exe = fluid.Executor(fluid.CPUPlace())
    if role == 'server':
        program, startup = transpiler.get_pserver_programs(servers[index])
        exe.run(startup)
        exe.run(program)
        return
    program = transpiler.get_trainer_program()
    exe.run(fluid.default_startup_program())
    steps(lambda feed: exe.run(program, feed), where if index == 0 else None)
    exe.close()


def rank_of(index, ranks, where):
    loss = build()
    config = fluid.DistributeTranspilerConfig()
    config.mode = 'nccl2'
    fluid.DistributeTranspiler(config).transpile(index, trainers=','.join(ranks), current_endpoint=ranks[index])
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    strategy = fluid.BuildStrategy()
    strategy.num_trainers, strategy.trainer_id = len(ranks), index
    compiled = fluid.CompiledProgram(fluid.default_main_program()).with_data_parallel(loss.name, strategy)
    steps(lambda feed: exe.run(compiled, feed), where if index == 0 else None)


def start(run, output):
    """A process that has everything imported already. Ends as Python would."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        os.dup2(output, 1)
        os.dup2(output, 2)
        run()
        code = 0
    except BaseException as error:
        sys.last_value = error
        traceback.print_exc()
    finally:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def wait(pids, until):
    """Exit codes by process; what is not there yet at `until` is None."""
    codes = {}
    while len(codes) < len(pids) and time.monotonic() < until:
        for pid in set(pids) - set(codes):
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                codes[pid] = os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    return codes


def plan(draw, kind):
    """(kind, [(role, what it runs)], endpoints) of a job."""
    where = tempfile.mkdtemp(prefix='fault_jobs')
    if (draw.random() < 0.4 and kind != 'servers') or kind == 'ranks':
        count = draw.choice([2, 3])
        ranks = free_ports(count)
        return 'ranks', [(f'rank {i}', lambda i=i: rank_of(i, ranks, where)) for i in range(count)], ranks, where
    servers, trainers = free_ports(draw.choice([1, 2])), draw.choice([1, 2, 3])
    roles = [(f'server {i}', lambda i=i: server_or_trainer('server', i, servers, trainers, where))
             for i in range(len(servers))]
    roles += [(f'trainer {i}', lambda i=i: server_or_trainer('trainer', i, servers, trainers, where))
              for i in range(trainers)]
    return 'servers', roles, servers, where


def names_the_culprit(victim, endpoints, text):
    role, number = victim.split()
    if role == 'server':
        return endpoints[int(number)] in text
    if role == 'trainer':
        return f'{victim} is lost' in text or f'trainers {number} have not come' in text
    return (f'{victim} is lost' in text or f'ranks have not come: {number} (' in text
            or (number == '0' and 'rank 0 has not called' in text) or f'connections: {endpoints[int(number)]}' in text)


def run_refused(roles, endpoints, where, seed):
    """Somebody else listens where the first server wants to."""
    host, port = endpoints[0].split(':')
    with socket.create_server((host, int(port))):
        outputs = [tempfile.TemporaryFile() for _ in roles]
        pids = [start(run, output.fileno()) for (_, run), output in zip(roles, outputs)]
        codes = wait(pids, time.monotonic() + LIMIT)
        late = set(pids) - set(codes)
        for pid in late:
            os.kill(pid, signal.SIGKILL)
        wait(list(late), time.monotonic() + 10)
    texts = []
    for output in outputs:
        output.seek(0)
        texts.append(output.read().decode(errors='replace'))
    what = f'seed {seed}: the port of server 0 is taken'
    assert not late, f'{what}: {len(late)} processes did not end\n' + '\n'.join(texts)
    assert all(codes[pid] == 1 for pid in pids), f'{what}: {codes}\n' + '\n'.join(texts)
    for (name, _), text in zip(roles, texts):
        if name == 'server 0':
            assert f'cannot listen on {endpoints[0]}' in text, f'{what}\n{text}'
        elif name.startswith('trainer'):
            assert endpoints[0] in text, f'{what}: {name} does not name it\n{text}'
    check_left(endpoints, where, what, None)
    return 'found a port taken, and named it'


def run_one(seed, kind=None):
    """One job; an AssertionError says what was not as it must be."""
    draw = random.Random(seed)
    kind, roles, endpoints, where = plan(draw, kind)
    settings = {'FLAGS_rpc_deadline': 3000, 'FLAGS_heartbeat_limit': 3, 'FLAGS_drop_answers': '',
                'FLAGS_server_snapshot': '', 'FLAGS_server_return_limit': 10}
    if draw.random() < 0.3:
        settings['FLAGS_drop_answers'] = f'0.2,{seed % 1000}'
    keeps = kind == 'servers' and draw.random() < 0.7
    if keeps:
        settings.update({'FLAGS_server_snapshot': os.path.join(where, 'snapshots'),
                         'FLAGS_server_snapshot_seconds': draw.choice([0, 1000])})
    fluid.set_flags(settings)
    if kind == 'servers' and draw.random() < 0.08:
        return run_refused(roles, endpoints, where, seed)
    outputs = [tempfile.TemporaryFile() for _ in roles]
    pids = [start(run, output.fileno()) for (_, run), output in zip(roles, outputs)]
    chosen = draw.randrange(len(roles))
    if keeps and draw.random() < 0.5:
        chosen = 0  # a server
    victim, how = roles[chosen][0], draw.choice(['kill'] * 5 + ['stop'])
    began, comes_again = time.monotonic(), False
    codes = wait(pids, began + draw.uniform(0, 0.7))
    done_before = pids[chosen] in codes
    try:
        if not done_before:
            os.kill(pids[chosen], signal.SIGKILL if how == 'kill' else signal.SIGSTOP)
        comes_again = keeps and how == 'kill' and not done_before and victim.startswith('server')
        if comes_again:
            wait(pids[chosen:chosen + 1], time.monotonic() + 10)
            pids[chosen] = start(roles[chosen][1], outputs[chosen].fileno())
        others = [pid for pid in pids if (comes_again or pid != pids[chosen]) and pid not in codes]
        codes.update(wait(others, began + LIMIT))
    finally:
        for pid in set(pids) - set(codes):
            os.kill(pid, signal.SIGKILL)
        late = set(pids) - set(codes) - (set() if comes_again else {pids[chosen]})
        codes.update(wait(list(set(pids) - set(codes)), time.monotonic() + 10))
    texts = []
    for output in outputs:
        output.seek(0)
        texts.append(output.read().decode(errors='replace'))
    told = '\n'.join(f'--- {name}: {codes[pid]}\n{text}' for (name, _), pid, text in zip(roles, pids, texts))
    what = f'seed {seed}: {kind}, {victim} by {how}' + (', started again' if comes_again else '')
    assert not late, f'{what}: {len(late)} processes did not end\n{told}'
    assert 'WRONG COUNT' not in told and 7 not in codes.values(), f'{what}: an update was lost or came twice\n{told}'
    if keeps and how == 'stop':  # it was ended with its job, and had no say
        shutil.rmtree(settings['FLAGS_server_snapshot'], ignore_errors=True)
    check_left(endpoints, where, what, victim)
    ended = [codes[pid] for pid in pids]
    others = [(codes[pid], text) for pid, text in zip(pids, texts) if pid != pids[chosen]]
    if comes_again:
        done = all(codes[pid] == 0 for (name, _), pid in zip(roles, pids) if name.startswith('trainer'))
        assert done, f'{what}: {ended}\n{told}'
        return 'recovered from the death of a server'
    if all(code == 0 for code, _ in others):  # it had nothing more to say to them, or there are none
        return 'was done before'
    assert all(code in (0, 1) for code, _ in others), f'{what}: {ended}\n{told}'
    assert any(names_the_culprit(victim, endpoints, text) for code, text in others if code), \
        f'{what}: nobody names it\n{told}'
    return f'failed by SIG{how.upper()} of a {victim.split()[0]}, and named it'


def check_left(endpoints, where, what, victim):
    """No port is taken, and no file is half written."""
    for endpoint in endpoints:
        host, port = endpoint.split(':')
        with socket.socket() as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            trial.bind((host, int(port)))
    for name in os.listdir(where):
        if name.startswith('.trireme.') and os.path.isdir(os.path.join(where, name)):
            # Of who was killed while saving: the next to save there removes it.
            assert victim in ('trainer 0', 'rank 0'), f'{what}: {name} is left'
            shutil.rmtree(os.path.join(where, name))
            continue
        if name == 'snapshots':
            left = os.listdir(os.path.join(where, name))
            assert not left, f'{what}: {left} is left'
            os.rmdir(os.path.join(where, name))
            continue
        if name == 'w':
            assert os.path.getsize(os.path.join(where, name)) > 4, f'{what}: {name} is not whole'
        os.remove(os.path.join(where, name))
    os.rmdir(where)


def main(count, seed, kind=None):
    outcomes = collections.Counter(run_one(seed + i, kind) for i in range(count))
    fluid.set_flags({'FLAGS_drop_answers': '', 'FLAGS_server_snapshot': ''})
    print(f'{count} jobs: ' + ', '.join(f'{number} {outcome}' for outcome, number in sorted(outcomes.items())))


if __name__ == '__main__':
    main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(10 ** 6), *sys.argv[3:])
