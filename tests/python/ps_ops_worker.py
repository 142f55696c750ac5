"""A server with a table kept as SelectedRows, or a trainer that looks rows up and has the table saved."""
import json
import sys

import numpy as np
import paddle.fluid as fluid

ROWS = fluid.core.VarDesc.VarType.SELECTED_ROWS


def server(endpoint):
    program = fluid.Program()
    block = program.global_block()
    table = block.create_var(name='table', type=ROWS, persistable=True, shape=[4, 2], dtype='float32')
    ids = block.create_var(name='ids', shape=[-1, 1], dtype='int64')
    found = block.create_var(name='found', shape=[-1, 2], dtype='float32')
    lookup = program._create_block()
    lookup.append_op(type='lookup_sparse_table', inputs={'W': table, 'Ids': ids}, outputs={'Out': found},
                     attrs={'is_test': False, 'auto_grown_table': True})
    program._rollback()
    update = program._create_block()
    program._rollback()
    block.append_op(type='listen_and_serv', inputs={}, outputs={}, attrs={
        'endpoint': endpoint, 'Fanin': 1, 'distributed_mode': 1, 'optimize_blocks': [update], 'grad_to_block_id': [],
        'prefetch_var_name_to_block_id': [f'ids:{lookup.idx}']})
    rows = fluid.global_scope().var('table').get_selected_rows()
    rows.set_height(100)
    rows.get_tensor().set(np.arange(8, dtype='float32').reshape(4, 2), fluid.CPUPlace())
    fluid.Executor(fluid.CPUPlace()).run(program)


def trainer(endpoint, directory):
    exe = fluid.Executor(fluid.CPUPlace())
    program = fluid.Program()
    block = program.global_block()
    ids = block.create_var(name='ids', shape=[-1, 1], dtype='int64', is_data=True)
    out = block.create_var(name='out', shape=[-1, 2], dtype='float32')
    block.append_op(type='prefetch', inputs={'X': [ids]}, outputs={'Out': [out]}, attrs={'epmap': [endpoint]})
    said = [exe.run(program, {'ids': np.array(each, 'int64').reshape(-1, 1)}, [out])[0].tolist()
            for each in ([40, 7], [7, 99, 40])]
    notify = fluid.Program()
    notify.global_block().append_op(type='checkpoint_notify', inputs={}, outputs={}, attrs={
        'epmap': [endpoint], 'dir': directory, 'lookup_table': 'table'})
    exe.run(notify)
    exe.close()
    print(json.dumps(said))


if __name__ == '__main__':
    server(sys.argv[2]) if sys.argv[1] == 'server' else trainer(*sys.argv[2:])
