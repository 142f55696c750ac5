"""Transpiled programs as text: in the original it records them, in ours the test compares with that.

python2.7 tests/original/transpiled.py > tests/original/records/transpiled.txt

A text has every op of every block of a side (trainer, its startup program, each server and its startup
program): type, slots and names; attributes of the ops that talk to servers.
"""
from __future__ import print_function

import re
import sys

import paddle.fluid as fluid

ATTRIBUTES = {
    'send': ('epmap', 'sections'), 'recv': ('epmap',), 'send_barrier': ('endpoints',),
    'fetch_barrier': ('endpoints',), 'listen_and_serv': ('Fanin', 'distributed_mode', 'endpoint'),
    'concat': ('axis',), 'split_byref': ('sections',), 'split_selected_rows': ('height_sections',),
    'distributed_lookup_table': ('endpoints', 'table_names'), 'prefetch': ('epmap',),
    'lookup_table': ('is_distributed', 'is_sparse', 'remote_prefetch', 'padding_idx'),
    'fake_init': ('shape',), 'fill_constant': ('shape',), 'uniform_random': ('shape',),
}


def shown(value):
    if isinstance(value, (list, tuple)):
        return '[%s]' % ', '.join(shown(each) for each in value)
    if isinstance(value, (bool, float)):
        return repr(value)
    return str(value)


def slots_of(op, names, values):
    return '; '.join('%s: %s' % (slot, ', '.join(values(slot))) for slot in sorted(names) if values(slot))


def text_of(title, program):
    lines = ['  ' + title]
    for number, block in enumerate(program.blocks):
        lines.append('    block %d in %d' % (number, block.parent_idx))
        for op in block.ops:
            line = '      %s(%s) -> (%s)' % (op.type, slots_of(op, op.input_names, op.input),
                                             slots_of(op, op.output_names, op.output))
            attrs = ['%s=%s' % (name, shown(op.attr(name))) for name in ATTRIBUTES.get(op.type, ())
                     if op.has_attr(name)]
            lines.append(line + (' ' + ', '.join(attrs) if attrs else ''))
    names = {}
    # Variables that only order ops have random names: they are counted as they come.
    return re.sub(r'__control_var@[0-9.e-]+',
                  lambda m: names.setdefault(m.group(), '__control_var@%d' % len(names)), '\n'.join(lines))


def dense(optimizer):
    def build():
        x, y = fluid.layers.data('x', [400]), fluid.layers.data('y', [100])
        out = fluid.layers.fc(x, 100, param_attr='w', bias_attr='b')
        loss = fluid.layers.mean(fluid.layers.square_error_cost(out, y))
        optimizer().minimize(loss)
    return build


def words(optimizer, **how):
    def build():
        word, y = fluid.layers.data('word', [1], dtype='int64', lod_level=0), fluid.layers.data('y', [8])
        row = fluid.layers.embedding(word, [4000, 8], param_attr='table', **how)
        out = fluid.layers.fc(row, 8, param_attr='w', bias_attr='b')
        loss = fluid.layers.mean(fluid.layers.square_error_cost(out, y))
        optimizer().minimize(loss)
    return build


def shared_table():
    """A distributed table that two lookups share, as click-through models have it."""
    pooled = []
    for name in ('title', 'brand'):
        ids = fluid.layers.data(name, [1], dtype='int64', lod_level=1)
        row = fluid.layers.embedding(ids, [4000, 8], param_attr='table', is_sparse=True, is_distributed=True)
        pooled.append(fluid.layers.sequence_pool(row, 'sum'))
    y = fluid.layers.data('y', [8])
    out = fluid.layers.fc(fluid.layers.concat(pooled, axis=1), 8, param_attr='w', bias_attr='b')
    fluid.optimizer.SGD(0.1).minimize(fluid.layers.mean(fluid.layers.square_error_cost(out, y)))


def noise_contrastive(is_sparse=True):
    x, label = fluid.layers.data('x', [8]), fluid.layers.data('label', [1], dtype='int64')
    hidden = fluid.layers.fc(x, 8, param_attr='w', bias_attr='b')
    cost = fluid.layers.nce(hidden, label, 2000, param_attr='nce_w', bias_attr='nce_b', num_neg_samples=5,
                            is_sparse=is_sparse)
    fluid.optimizer.SGD(0.1).minimize(fluid.layers.mean(cost))


def hierarchical():
    x, label = fluid.layers.data('x', [8]), fluid.layers.data('label', [1], dtype='int64')
    hidden = fluid.layers.fc(x, 8, param_attr='w', bias_attr='b')
    cost = fluid.layers.hsigmoid(hidden, label, 2000, param_attr='h_w', bias_attr='h_b')
    fluid.optimizer.SGD(0.1).minimize(fluid.layers.mean(cost))


def regularized():
    return fluid.optimizer.SGD(0.1, regularization=fluid.regularizer.L2Decay(0.01))


def clipped():
    x, y = fluid.layers.data('x', [400]), fluid.layers.data('y', [100])
    out = fluid.layers.fc(x, 100, param_attr='w', bias_attr='b')
    loss = fluid.layers.mean(fluid.layers.square_error_cost(out, y))
    fluid.clip.set_gradient_clip(fluid.clip.GradientClipByGlobalNorm(1.0))
    fluid.optimizer.SGD(0.1).minimize(loss)


def decayed(decay, *arguments):
    return lambda: fluid.optimizer.SGD(decay(*arguments))


layers, opt = fluid.layers, fluid.optimizer


def sgd():
    return opt.SGD(0.1)


NETS = {
    'sgd': dense(sgd),
    'momentum': dense(lambda: opt.Momentum(0.1, 0.9)),
    'adam': dense(lambda: opt.Adam(0.1)),
    'adamax': dense(lambda: opt.Adamax(0.1)),
    'adagrad': dense(lambda: opt.Adagrad(0.1)),
    'decayed_adagrad': dense(lambda: opt.DecayedAdagrad(0.1)),
    'rmsprop': dense(lambda: opt.RMSProp(0.1)),
    'ftrl': dense(lambda: opt.Ftrl(0.1)),
    'adadelta': dense(lambda: opt.Adadelta(0.1)),
    'l2': dense(regularized),
    'clipped': clipped,
    'exponential_decay': dense(decayed(layers.exponential_decay, 0.1, 10, 0.5)),
    'natural_exp_decay': dense(decayed(layers.natural_exp_decay, 0.1, 10, 0.5)),
    'inverse_time_decay': dense(decayed(layers.inverse_time_decay, 0.1, 10, 0.5)),
    'polynomial_decay': dense(decayed(layers.polynomial_decay, 0.1, 10)),
    'piecewise_decay': dense(decayed(layers.piecewise_decay, [10, 20], [0.1, 0.01, 0.001])),
    'noam_decay': dense(decayed(layers.noam_decay, 64, 10)),
    'cosine_decay': dense(decayed(layers.cosine_decay, 0.1, 10, 5)),
    'adam_with_decay': dense(lambda: opt.Adam(layers.exponential_decay(0.1, 10, 0.5))),
    'sparse_sgd': words(sgd, is_sparse=True),
    'sparse_adagrad': words(lambda: opt.Adagrad(0.1), is_sparse=True),
    'sparse_adam': words(lambda: opt.Adam(0.1), is_sparse=True),
    'sparse_momentum': words(lambda: opt.Momentum(0.1, 0.9), is_sparse=True),
    'distributed_sgd': words(sgd, is_sparse=True, is_distributed=True),
    'shared_table': shared_table,
    'dense_table': words(sgd),
    'nce_dense': lambda: noise_contrastive(False),
    'nce': noise_contrastive,
    'hsigmoid': hierarchical,
}
ALWAYS = [(1, True, True), (2, True, True), (2, False, True), (2, True, False)]  # servers, cut, sync
MORE = [(3, True, True), (3, False, True), (3, True, False), (1, True, False), (2, False, False)]


def cases():
    for net in sorted(NETS):
        for servers, cut, sync in ALWAYS + (MORE if net in ('sgd', 'adam', 'sparse_sgd') else []):
            name = '%s, %d servers, %s, %s' % (net, servers, 'cut' if cut else 'whole', 'sync' if sync else 'async')
            yield name, net, servers, cut, sync


def transpiled(net, endpoints, cut, sync):
    main, startup = fluid.Program(), fluid.Program()
    with fluid.unique_name.guard(), fluid.program_guard(main, startup):
        NETS[net]()
        config = fluid.DistributeTranspilerConfig()
        config.slice_var_up = cut
        config.wait_port = False
        transpiler = fluid.DistributeTranspiler(config)
        transpiler.transpile(1, program=main, startup_program=startup, pservers=','.join(endpoints), trainers=2,
                             sync_mode=sync)
    return transpiler, startup


def sides(net, servers, cut, sync):
    """Each side by a transpiler of its own, as in processes of their own: title and text."""
    endpoints = ['10.0.0.%d:6174' % server for server in range(servers)]
    transpiler, startup = transpiled(net, endpoints, cut, sync)
    yield text_of('trainer', transpiler.get_trainer_program(False))
    yield text_of('startup of the trainer', startup)
    for endpoint in endpoints:
        main, startup = transpiled(net, endpoints, cut, sync)[0].get_pserver_programs(endpoint)
        yield text_of(endpoint, main)
        yield text_of('startup of ' + endpoint, startup)


def text(name, net, servers, cut, sync):
    return name + '\n' + '\n'.join(sides(net, servers, cut, sync)) + '\n'


if __name__ == '__main__':
    import os
    out = os.fdopen(os.dup(1), 'w')
    os.dup2(2, 1)  # what the original prints itself goes elsewhere
    for case in cases():
        try:
            out.write(text(*case) + '\n')
        except Exception as error:
            print(case[0], repr(error)[:300], file=sys.stderr)
            out.write('%s\n  refused: %s\n\n' % (case[0], type(error).__name__))
