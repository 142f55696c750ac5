"""Prints programs.inc: what DistributeTranspiler of PaddlePaddle 1.8.5 makes of golden_test's net.

Run it with Python 2.7 where paddlepaddle 1.8.5 is installed: python record_programs.py > programs.inc
"""
from __future__ import print_function

import re

import paddle.fluid as fluid

EVERYWHERE = ('op_namescope', 'op_device', 'op_callstack', 'use_mkldnn', 'use_quantizer',
              'mkldnn_data_type')
RPC, DIST = 4, 8  # bits of op_role
TYPES = {fluid.core.VarDesc.VarType.FP32: 'float32', fluid.core.VarDesc.VarType.INT64: 'int64'}


def shown(value):
    if isinstance(value, (list, tuple)):
        if value and isinstance(value[0], fluid.framework.Block):
            return 'blocks[%s]' % ', '.join(str(block.idx) for block in value)
        return '[%s]' % ', '.join("'%s'" % v if isinstance(v, type(u'')) or isinstance(v, str)
                                  else shown(v) for v in value)
    if isinstance(value, fluid.framework.Block):
        return 'block[%d]' % value.idx
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, float):
        return repr(value)
    return str(value)


def text_of(title, program):
    is_startup = title.endswith('startup')
    lines = [title]
    for number, block in enumerate(program.blocks):
        lines.append('  block %d in %d' % (number, block.parent_idx))
        for _, var in sorted(block.vars.items()):
            if is_startup or var.type != fluid.core.VarDesc.VarType.LOD_TENSOR or not var.shape:
                continue
            lines.append('    var %s [%s] %s%s' % (var.name, ', '.join(map(str, var.shape)), TYPES[var.dtype],
                                                   ' persistable' if var.persistable else ''))
        for op in block.ops:
            ins = [name for slot in sorted(op.input_names) for name in op.input(slot)]
            outs = [name for slot in sorted(op.output_names) for name in op.output(slot)]
            lines.append('    %s(%s) -> %s' % (op.type, ', '.join(ins), ', '.join(outs)))
            attrs = op.all_attrs()
            if 'grad_to_block_id' in attrs:  # in the order of a dict of Python 2
                attrs['grad_to_block_id'] = sorted(attrs['grad_to_block_id'])
            inserted = op.type == 'listen_and_serv' or int(attrs.get('op_role', 0)) & (RPC | DIST)
            kept = ['%s=%s' % (name, shown(attrs[name])) for name in sorted(attrs)
                    if inserted and name not in EVERYWHERE or is_startup and name in ('shape', 'value')
                    or number > 0 and name == 'scale']
            if kept:
                lines.append('      ' + ', '.join(kept))
    return numbered('\n'.join(lines) + '\n')


def numbered(text):
    """Variables that only order ops have random names: they are counted as they come."""
    names = {}
    return re.sub(r'__control_var@[0-9.e-]+',
                  lambda m: names.setdefault(m.group(), '__control_var@%d' % len(names)), text)


def transpiled(endpoints, sliced, sync):
    main, startup = fluid.Program(), fluid.Program()
    with fluid.unique_name.guard(), fluid.program_guard(main, startup):
        x = fluid.layers.data('x', [1000])
        y = fluid.layers.data('y', [1000])
        out = fluid.layers.fc(x, 1000, param_attr='fc_w', bias_attr='fc_b')
        loss = fluid.layers.mean(fluid.layers.square_error_cost(out, y))
        fluid.optimizer.SGD(0.1).minimize(loss)
        config = fluid.DistributeTranspilerConfig()
        config.slice_var_up = sliced
        transpiler = fluid.DistributeTranspiler(config)
        transpiler.transpile(1, program=main, startup_program=startup, pservers=','.join(endpoints),
                             trainers=2, sync_mode=sync)
    return transpiler, startup


def cluster_text(servers, sliced, sync):
    """Every side by a transpiler of its own, as in processes of their own: they change what they share."""
    endpoints = ['10.0.0.%d:6174' % s for s in range(servers)]
    transpiler, startup = transpiled(endpoints, sliced, sync)
    text = text_of('trainer main', transpiler.get_trainer_program(False)) + text_of('trainer startup', startup)
    for endpoint in endpoints:
        main, startup = transpiled(endpoints, sliced, sync)[0].get_pserver_programs(endpoint)
        text += text_of(endpoint + ' main', main) + text_of(endpoint + ' startup', startup)
    return text


if __name__ == '__main__':
    print('// Printed by record_programs.py with PaddlePaddle 1.8.5: trainer 1 of 2, see golden_test.cc.')
    for servers in (1, 2, 3, 4):
        for sliced in (True, False):
            for sync in (True, False):
                name = '%s, %s, %d' % ('sync' if sync else 'async', 'cut' if sliced else 'whole', servers)
                print('{"%s", R"(%s)"},' % (name, cluster_text(servers, sliced, sync)))
