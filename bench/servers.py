"""How fast a parameter server and ranks exchange tensors: ratios to bare streams, in one run.

    cmake --build --preset release --target grpc_stream
    .venv/bin/python bench/servers.py

One trainer pushes a dense block to a server on loopback and pulls it back; beside it, as many bytes go through a
bare gRPC stream and back (bench/grpc_stream.cc). Then rows of a table are looked up and their gradients pushed, and two
ranks sum 25 MB over Gloo. Each number is the best of several turns; ratios are what to look at."""
import multiprocessing
import os
import platform
import socket
import subprocess
import sys
import time

import numpy as np

BLOCKS_KB = (32, 64, 128, 256, 512, 1024, 2048, 8192)
TURNS = 5
ROWS, WIDTH, BATCH = 200000, 16, 20000
REDUCED_MB = 25


def free_endpoint():
    with socket.socket() as taken:
        taken.bind(('127.0.0.1', 0))
        return '127.0.0.1:%d' % taken.getsockname()[1]


def seconds(run, times):
    """Of one run: the best of some turns of so many."""
    run()
    best = float('inf')
    for _ in range(TURNS):
        begin = time.perf_counter()
        for _ in range(times):
            run()
        best = min(best, (time.perf_counter() - begin) / times)
    return best


# ---- plain sockets

def echo(listener):
    connection, _ = listener.accept()
    buffer = bytearray(8 << 20)
    while size := int.from_bytes(connection.recv(8, socket.MSG_WAITALL), 'little'):
        view = memoryview(buffer)[:size]
        got = 0
        while got < size:
            got += connection.recv_into(view[got:])
        connection.sendall(view)


def socket_seconds(size, times):
    listener = socket.create_server(('127.0.0.1', 0))
    child = multiprocessing.Process(target=echo, args=(listener,))
    child.start()
    connection = socket.create_connection(listener.getsockname())
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    data, back = os.urandom(size), memoryview(bytearray(size))

    def turn():
        connection.sendall(size.to_bytes(8, 'little') + data)
        got = 0
        while got < size:
            got += connection.recv_into(back[got:])
    best = seconds(turn, times)
    connection.sendall(bytes(8))
    child.join()
    return best


# ---- servers

def stream_seconds(kb):
    told = subprocess.run(['build/release/bench/grpc_stream', str(kb)], capture_output=True, text=True, check=True)
    return float(told.stdout.split()[1])


def serve(endpoint, elements):
    import paddle.fluid as fluid
    program = fluid.Program()
    block = program.global_block()
    block.create_var(name='w', shape=[elements], dtype='float32', persistable=True)
    block.create_var(name='table', shape=[ROWS, WIDTH], dtype='float32', persistable=True)
    block.create_var(name='rows', type=fluid.core.VarDesc.VarType.SELECTED_ROWS, dtype='float32',
                     shape=[ROWS, WIDTH])
    empty = program._create_block()
    program._rollback()
    block.append_op(type='listen_and_serv', attrs={
        'endpoint': endpoint, 'Fanin': 1, 'distributed_mode': 1, 'optimize_blocks': [empty], 'grad_to_block_id': []})
    scope = fluid.global_scope()
    scope.var('w').get_tensor().set(np.zeros(elements, 'float32'), fluid.CPUPlace())
    scope.var('table').get_tensor().set(np.zeros((ROWS, WIDTH), 'float32'), fluid.CPUPlace())
    fluid.Executor(fluid.CPUPlace()).run(program)


def dense_program(fluid, endpoint, elements):
    program = fluid.Program()
    block = program.global_block()
    w = block.create_var(name='w', shape=[elements], dtype='float32', persistable=True)
    done = block.create_var(name='done', shape=[1], dtype='int64')
    block.append_op(type='send', inputs={'X': [w]}, outputs={'Out': [done]}, attrs={'epmap': [endpoint]})
    block.append_op(type='recv', inputs={'X': [done]}, outputs={'Out': [w]}, attrs={'epmap': [endpoint]})
    return program


def sparse_program(fluid, endpoint):
    program = fluid.Program()
    block = program.global_block()
    ids = block.create_var(name='ids', shape=[-1, 1], dtype='int64', is_data=True)
    w = block.create_var(name='table', shape=[ROWS, WIDTH], dtype='float32', persistable=True)
    rows = block.create_var(name='found', shape=[-1, WIDTH], dtype='float32')
    done = block.create_var(name='done', shape=[1], dtype='int64')
    block.append_op(type='distributed_lookup_table', inputs={'Ids': [ids], 'W': [w]}, outputs={'Outputs': [rows]},
                    attrs={'table_names': ['table'], 'height_sections': [ROWS], 'endpoints': [endpoint]})
    sparse = block.create_var(name='rows', type=fluid.core.VarDesc.VarType.SELECTED_ROWS, dtype='float32',
                              persistable=True, shape=[ROWS, WIDTH])
    block.append_op(type='send', inputs={'X': [sparse]}, outputs={'Out': [done]}, attrs={'epmap': [endpoint]})
    return program


def of_servers():
    import paddle.fluid as fluid
    print(f'{"block":>8} {"push+pull":>12} {"bare gRPC":>12} {"ratio":>7}')
    for kb in BLOCKS_KB:
        elements, endpoint = kb * 256, free_endpoint()
        server = multiprocessing.get_context('spawn').Process(target=serve, args=(endpoint, elements))
        server.start()
        exe, scope = fluid.Executor(fluid.CPUPlace()), fluid.Scope()
        scope.var('w').get_tensor().set(np.zeros(elements, 'float32'), fluid.CPUPlace())
        program = dense_program(fluid, endpoint, elements)
        times = max(4, min(200, 16384 // kb))
        with fluid.scope_guard(scope):
            ours = seconds(lambda: exe.run(program), times)
        if kb == BLOCKS_KB[-1]:
            sparse_rate(fluid, exe, endpoint)
        exe.close()
        server.join()
        bare = stream_seconds(kb)
        print(f'{kb:>5} KB {2 * kb / 1024 / ours:>7.0f} MB/s {2 * kb / 1024 / bare:>7.0f} MB/s {bare / ours:>7.2f}',
              flush=True)


def sparse_rate(fluid, exe, endpoint):
    draw = np.random.RandomState(1)
    ids = draw.choice(ROWS, BATCH, replace=False).astype('int64').reshape(-1, 1)
    with fluid.scope_guard(fluid.Scope()):
        rows = fluid.global_scope().var('rows').get_selected_rows()
        rows.set_height(ROWS)
        rows.set_rows(sorted(ids.ravel().tolist()))
        rows.get_tensor().set(np.zeros((BATCH, WIDTH), 'float32'), fluid.CPUPlace())
        program = sparse_program(fluid, endpoint)
        table = fluid.Program()  # of the trainer's: a shape and no memory
        table.global_block().append_op(
            type='fake_init', attrs={'shape': [ROWS, WIDTH]},
            outputs={'Out': table.global_block().create_var(name='table', shape=[ROWS, WIDTH], dtype='float32',
                                                            persistable=True)})
        exe.run(table)
        best = seconds(lambda: exe.run(program, {'ids': ids}, []), 5)
    print(f'rows of {WIDTH} floats looked up and pushed back: {BATCH / best / 1e6:.2f} million a second, of one server')


# ---- ranks

def reduce_as(rank, endpoints, results):
    import paddle.distributed as dist
    import paddle.fluid as fluid
    os.environ.update(PADDLE_TRAINER_ID=str(rank), PADDLE_TRAINERS_NUM='2',
                      PADDLE_TRAINER_ENDPOINTS=','.join(endpoints))
    dist.init_parallel_env()
    program = fluid.Program()
    with fluid.program_guard(program, fluid.Program()):
        x = program.global_block().create_var(name='x', shape=[REDUCED_MB << 18], dtype='float32', persistable=True)
        dist.all_reduce(x)
    fluid.global_scope().var('x').get_tensor().set(np.zeros(REDUCED_MB << 18, 'float32'), fluid.CPUPlace())
    exe = fluid.Executor(fluid.CPUPlace())
    best = seconds(lambda: exe.run(program), 4)
    if rank == 0:
        results.put(best)


def of_ranks():
    context = multiprocessing.get_context('spawn')
    results, endpoints = context.Queue(), [free_endpoint(), free_endpoint()]
    ranks = [context.Process(target=reduce_as, args=(rank, endpoints, results)) for rank in (0, 1)]
    for each in ranks:
        each.start()
    best = results.get()
    for each in ranks:
        each.join()
    bare = socket_seconds((REDUCED_MB << 20) // 4, 4) * 2  # each rank sends and takes its half twice
    print(f'sum of {REDUCED_MB} MB over 2 ranks: {best * 1e3:.1f} ms; as many bytes through sockets: '
          f'{bare * 1e3:.1f} ms; ratio {bare / best:.2f}')


if __name__ == '__main__':
    print(platform.machine(), os.cpu_count(), 'cores, Python', sys.version.split()[0])
    of_servers()
    of_ranks()
