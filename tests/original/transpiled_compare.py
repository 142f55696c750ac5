"""Where our transpiled programs differ from the original's on purpose. Headings are of docs/departures.md."""
import re

# net -> heading: the original's transpiler ends in an error, ours makes the programs
REFUSED = {
    'distributed_sgd': 'Tables that the original cannot place on servers',
    'shared_table': 'Tables that the original cannot place on servers',
    'nce': 'Tables that the original cannot place on servers',
}
HEADINGS = set(REFUSED.values()) | {
    'Servers of transpile(sync_mode=False)', 'Adadelta on servers', "RMSProp's mean gradient on servers",
    'Blocks of a schedule that moved', 'The order of first values', 'Clips of the whole gradient'}


def net_of(name):
    return name.partition(',')[0]


def sides(text):
    """title -> lines of a side, in order."""
    found, title = {}, None
    for line in text.split('\n')[1:]:
        if re.match(r'  \S', line):
            title = line.strip()
            found[title] = []
        else:
            found[title].append(line)
    return found


def _only_first_block(lines):
    later = next((i for i, line in enumerate(lines) if line.startswith('    block 1 ')), len(lines))
    return lines[:later]


def _first_values_sorted(lines):
    """Ops that fill a variable with a constant, one after the other, in the order of their names."""
    found, run = [], []
    for line in lines + ['']:
        if line.lstrip().startswith('fill_constant()'):
            run.append(line)
            continue
        found += sorted(run) + [line]
        run = []
    return found[:-1]


def comparable(name, text):
    """The sides of a text, what differs on purpose made equal."""
    net, made = net_of(name), {}
    for title, lines in sides(text).items():
        server = title.endswith('6174') and not title.startswith('startup')
        if net == 'clipped' and title != 'startup of the trainer':
            continue
        if net == 'adadelta' and title.endswith('6174'):
            continue
        if title.startswith('startup'):
            lines = _first_values_sorted(lines)
        elif server and name.endswith('async'):
            lines = [re.sub('distributed_mode=[02]', 'distributed_mode=0 or 2', line) for line in lines]
        elif not server and net == 'piecewise_decay':
            lines = _only_first_block(lines)
        if net == 'rmsprop':
            lines = [re.sub(r'(_mean_grad_0\) shape=).*', r'\1', line) for line in lines]
        made[title] = '\n'.join(lines)
    return made
