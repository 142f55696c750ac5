"""A tensor above 4 GB goes to a parameter server and back: `large_tensor_slow.py [MILLION ELEMENTS]`, 1,100 unless said.

Takes three times its memory (13 GB) and about a minute, so no test runs it."""
import multiprocessing
import sys
import time

import ps_job


def blocks(elements):
    import paddle.fluid as fluid
    program = fluid.Program()
    w = program.global_block().create_var(name='w', shape=[elements // 1000, 1000], dtype='float32', persistable=True)
    return program, program.global_block(), w


def fill(value, elements):
    program, block, w = blocks(elements)
    block.append_op(type='fill_constant', outputs={'Out': w},
                    attrs={'shape': list(w.shape), 'dtype': w.dtype, 'value': value})
    return program


def serve(endpoint, elements):
    import paddle.fluid as fluid
    program, block, _ = blocks(elements)
    empty = program._create_block()
    program._rollback()
    block.append_op(type='listen_and_serv', attrs={'endpoint': endpoint, 'Fanin': 1, 'distributed_mode': 1,
                                                   'optimize_blocks': [empty], 'grad_to_block_id': []})
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fill(0.0, elements))
    exe.run(program)


def trade(what, endpoint, elements):
    program, block, w = blocks(elements)
    done = block.create_var(name='done', shape=[1], dtype='int64')
    if what == 'send':
        block.append_op(type='send', inputs={'X': [w]}, outputs={'Out': [done]}, attrs={'epmap': [endpoint]})
    else:
        block.append_op(type='recv', inputs={}, outputs={'Out': [w]}, attrs={'epmap': [endpoint]})
    return program


def main(elements):
    import paddle.fluid as fluid
    endpoint = '127.0.0.1:%d' % ps_job.free_ports(1)[0]
    server = multiprocessing.get_context('spawn').Process(target=serve, args=(endpoint, elements))
    server.start()
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fill(3.5, elements))
    for what in ('send', 'recv'):
        began = time.monotonic()
        exe.run(trade(what, endpoint, elements))
        seconds = time.monotonic() - began
        print(f'{what}: {elements * 4 / 1e9:.2f} GB in {seconds:.1f} s, {elements * 4 / 1e9 / seconds:.2f} GB/s', flush=True)
        if what == 'send':
            exe.run(fill(0.0, elements))
    program, block, w = blocks(elements)
    found = []
    for kind in ('min', 'max'):
        out = block.create_var(name=kind, shape=[1], dtype='float32')
        block.append_op(type='reduce_' + kind, inputs={'X': w}, outputs={'Out': out}, attrs={'reduce_all': True})
        found.append(out)
    least, most = (value.item() for value in exe.run(program, fetch_list=found))
    exe.close()
    server.join(30)
    assert (least, most) == (3.5, 3.5), (least, most)
    assert server.exitcode == 0
    print('every element came back')


if __name__ == '__main__':
    main((int(sys.argv[1]) if len(sys.argv) > 1 else 1100) * 1000000)
