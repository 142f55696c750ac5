"""Training steps of the engine and of every peer that is here, side by side, as one table.

Fresh processes of each side take turns, on the same cores; the best pass of each is compared and
every pass is printed. The ratio is to the best of all peers; one that fails does not end the rest,
one that is far behind another is not measured again.
Before each pass the round trip between the cores is taken: where the host moves them apart, all
sides take longer. Memory is the largest resident set of a process of its own, Python on all sides,
without the settings that make a peer fast and large.
"""

from typing import NamedTuple

from peers import WINOGRAD, find_peers
from turns import (arguments, best, cores_apart, engine, environment, parse, passes, print_machine,
                   run, turns)


BEHIND = 1.4  # a peer that is so many times slower than the best is measured once


class Side(NamedTuple):
    command: list
    tuned: dict  # the environment that is fast
    lean: dict  # that which takes no more memory than it needs
    in_cpp: bool = False


def sides_of(name, args, peers):
    """The engine's sides and the peers', by label."""
    here = {'trireme': {}}
    if name in WINOGRAD:
        here['trireme without Winograd'] = dict(FLAGS_conv_winograd='0')
    ours = {}
    for label, more in here.items():
        command, plain = engine(args, **more)
        ours[label] = Side(command, plain, plain)
    if args.in_cpp and not args.quick:
        plain = environment(args.threads)
        ours['trireme in C++'] = Side([args.program], plain, plain, in_cpp=True)
    theirs = {label: Side([*peer.command, *way], peer.environment(args.threads),
                          peer.environment(args.threads, lean=True), peer.in_cpp)
              for peer in peers for label, way in peer.ways(name, args.quick).items()}
    return ours, theirs


def measure(name, args, sides):
    """By side, the records of its passes and the memory it takes; prints them."""
    def once(side, environment, reps, secs):
        words = [*side.command, name, '--reps', reps, '--secs', secs]
        return lambda: run(words, environment, args.limit)

    apart = []
    found, failed = turns({label: once(side, side.tuned, args.reps, args.secs)
                           for label, side in sides.items()},
                          args.passes, lambda: apart.append(cores_apart(args)), BEHIND)
    lean, _ = turns({label: once(sides[label], sides[label].lean, 1, 0) for label in found
                     if not sides[label].in_cpp}, 0 if args.quick else 1)
    memory = {label: records[0]['peak_rss_mb'] for label, records in lean.items() if records}
    print(f'{name}\n    ns between the cores and back: {" ".join(apart)}')
    for label in sides:
        if label in failed:
            print(f'    {label:38} failed: {failed[label]}')
            continue
        cpu = min(one['cpu_ms'] for one in found[label])
        size = f'; {memory[label]:.0f} MB' if label in memory else ''
        print(f'    {label:38} ms a pass: {passes(found[label])}; CPU time {cpu:.4g} ms{size}')
    return found, memory


def compare(name, args, peers):
    """Of each row of a workload: what it is, its line of the main table, and that of all peers."""
    ours, theirs = sides_of(name, args, peers)
    found, memory = measure(name, args, {**ours, **theirs})
    rows = []
    for own, side in ours.items():
        label = f'{name}{own[len("trireme"):]}'
        ms = best(found[own])
        times = {peer: best(found[peer]) for peer in theirs
                 if theirs[peer].in_cpp == side.in_cpp and peer in found}
        if not times:
            rows.append((f'{label:28} {ms:9.4g}  no peer does the same', ''))
            continue
        who = min(times, key=times.get)
        line = f'{label:28} {ms:9.4g} {times[who]:9.4g} {times[who] / ms:7.2f}x  {who}'
        if own in memory:
            least = min((memory[peer], peer) for peer in times if peer in memory)
            line = f'{line:88} {memory[own]:.0f} / {least[0]:.0f} MB, {least[1]}'
        rows.append((line, f'{label:28} {ms:9.4g}; ' + '; '.join(
            f'{peer} {one:.4g} ({one / ms:.2f}x)' for peer, one in times.items())))
    return rows


def main(text, names, in_cpp=False, **defaults):
    parser = arguments(text, names, in_cpp=in_cpp, **defaults)
    parser.add_argument('--quick', action='store_true',
                        help='for a look: one pass of each side, no C++, torch.compile and memory')
    args = parse(parser)
    if args.quick:
        args.passes, args.reps, args.secs = 1, 3, 0.2
    peers, notes = find_peers(args)
    print_machine(args, peers, notes)
    rows = [row for name in args.names for row in compare(name, args, peers)]
    print(f'\n{"training step, ms":28} {"trireme":>9} {"best peer":>9} {"ratio":>8}  {"which":29} memory')
    for line, _ in rows:
        print(line)
    print('\nevery peer, ms (times the engine)')
    for _, line in rows:
        if line:
            print(line)
