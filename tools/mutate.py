#!/usr/bin/env python3
"""Plants one-line bugs and says which ones no test notices.

    .venv/bin/python tools/mutate.py [--count 20] [--seed 1] [--rooms compile,ops] [--seconds 240]

Mutant number k of a seed and rooms is always the same for the same commit. Nothing of the tree is
changed: a mutant's files, objects and library lie in build/mutants/k, and the tests load that
library, or that Python package, in place of the tree's. So several are judged at once. The tests
that know most about the mutated line run first, until one fails. A mutant that does not compile is
drawn again. A survivor may be equivalent: that is for a reader to decide.
"""

import argparse
import collections
import concurrent.futures
import difflib
import io
import json
import os
import pathlib
import random
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import time
import tokenize

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / 'build' / 'release'
PLACE = ROOT / 'build' / 'mutants'
ROOMS = ['compile', 'runtime', 'ops', 'ir', 'transpiler', 'io', 'python']
MOST_MEMORY = 12 << 30  # of one process: a mutant may never stop taking more

Mutant = collections.namedtuple('Mutant', 'room rule path line text')
Check = collections.namedtuple('Check', 'name command')


# Where a bug can be planted.

def blank(text):
    return re.sub(r'[^\n]', ' ', text)


def masked_cpp(text):
    """Comments, strings, directives and includes become blanks; everything keeps its place."""
    token = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"'
                       r"|(?<!\w)'(?:\\.|[^'\\\n])+'|^[ ]*#(?:\\\n|[^\n])*", re.S | re.M)
    return token.sub(lambda m: blank(m.group()), text)


def masked_python(text):
    lines = text.splitlines(keepends=True)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in (tokenize.STRING, tokenize.COMMENT):
            (first, begin), (last, end) = token.start, token.end
            for i in range(first - 1, last):
                a = begin if i == first - 1 else 0
                b = end if i == last - 1 else len(lines[i])
                # A string stays a word, so that `x = 'a'` is still a whole statement.
                filler = '_' if token.type == tokenize.STRING else ' '
                lines[i] = lines[i][:a] + re.sub(r'[^\n]', filler, lines[i][a:b]) + lines[i][b:]
    return ''.join(lines)


def close_of(line, at):
    """Where the bracket that opens at `at` closes, or None when it is on another line."""
    depth = 0
    for i in range(at, len(line)):
        depth += (line[i] in '([{') - (line[i] in ')]}')
        if depth == 0:
            return i
    return None


def operand_end(line, at, ends):
    """Where the operand of && or `and` that starts at `at` ends, or None when not on this line."""
    depth = 0
    for i in range(at, len(line)):
        if depth == 0 and (line[i] in ')]};,:?' or any(line.startswith(e, i) for e in ends)):
            return i if i > at else None
        depth += (line[i] in '([{') - (line[i] in ')]}')
    return None


OTHER = {'<': '<=', '<=': '<', '>': '>=', '>=': '>', '==': '!=', '!=': '==',
         'is': 'is not', 'is not': 'is', 'true': 'false', 'false': 'true', 'True': 'False',
         'False': 'True'}
CPP_STATEMENT = re.compile(r'\s+(?!return\b|throw\b|using\b|case\b|delete\b|else\b|if\b|for\b)'
                           r'[\w:]+(?:\.|->|\[[^\]]*\]|\([^()]*\)|\w)*(?: [-+*/|&]?= .+|\(.*\)|\+\+);\s*$')
PYTHON_STATEMENT = re.compile(r'\s+(?!return\b|raise\b|assert\b|print\b|import\b|from\b|yield\b)'
                              r'[\w.\[\]]+(?: ?[-+*/|&]?= .+|\(.*\))\s*$')


def edits_of(line, before, python):
    """(rule, begin, end, new text) for one line; `before` is the line above it."""
    words = r' (<=?|>=?|==|!=|is not|is) ' if python else r' (<=?|>=?|==|!=) '
    for m in re.finditer(words, line):
        yield 'comparison', m.start(1), m.end(1), OTHER[m.group(1)]
    for m in re.finditer(r"(?<![\w.'])(\d+\.\d*(?:e-?\d+)?f?|\d+e-?\d+f?|\d+|true|false|True|False)(?![\w.'])",
                         line):
        text = m.group(1)
        if text in OTHER:
            new = OTHER[text]
        elif text.isdigit():
            new = '0' if text == '1' else str(int(text) + 1)
        else:
            new = '(1 + %s)' % text if float(text.rstrip('f')) == 0 else '(2 * %s)' % text
        yield 'constant', m.start(1), m.end(1), new
    if python:
        m = re.match(r'\s*(?:el)?if (.+):\s*$', line)
        if m:
            yield 'condition', m.start(1), m.end(1), 'False and (%s)'
            yield 'condition', m.start(1), m.end(1), 'True or (%s)'
    else:
        for m in re.finditer(r'\bif \(', line):
            end = close_of(line, m.end() - 1)
            if end and ';' not in line[m.end():end] and ' = ' not in line[m.end():end]:
                yield 'condition', m.end(), end, 'false && (%s)'
                yield 'condition', m.end(), end, 'true || (%s)'
    joins = [' and ', ' or '] if python else [' && ', ' || ']
    for m in re.finditer('|'.join(map(re.escape, joins)), line):
        end = operand_end(line, m.end(), joins + [' if ', ' else '])
        if end:
            yield 'condition', m.start(), end, ''
    begins = not before.strip() or before.rstrip()[-1] in (':' if python else ';{}:') or \
        python and close_of('(' + before.strip() + ')', 0) == len(before.strip()) + 1
    statement = (PYTHON_STATEMENT if python else CPP_STATEMENT).match(line)
    if begins and statement and close_of('(' + line.strip() + ')', 0) == len(line.strip()) + 1:
        first = len(line) - len(line.lstrip())
        yield 'statement', first, len(line.rstrip()), 'pass' if python else ';'
    m = re.search(r'\b(continue|break);?\s*$', line)
    if m:
        yield 'statement', m.start(), len(line.rstrip()), 'pass' if python else ';'


def mutants_of(path):
    python = path.suffix == '.py'
    text = path.read_text()
    masked = (masked_python if python else masked_cpp)(text).split('\n')
    room = path.relative_to(ROOT).parts[0]
    for number, line in enumerate(text.split('\n')):
        before = masked[number - 1] if number else ''
        for rule, begin, end, new in edits_of(masked[number], before, python):
            new = new.replace('%s', line[begin:end])
            yield Mutant(room, rule, str(path.relative_to(ROOT)), number + 1,
                         line[:begin] + new + line[end:])


def sources():
    """Headers that many files read, or other headers, are left out: each would build half the house."""
    listed = [ROOT / name for name in git('ls-files', *ROOMS).split()]
    cpp = [p for p in listed if p.suffix == '.cc']
    texts = [p.read_text() for p in cpp]
    headers = [p.read_text() for p in listed if p.suffix == '.h']
    small = [p for p in listed if p.suffix == '.h' and 0 < readers(p, texts) <= 3 and not readers(p, headers)]
    return cpp + small + [p for p in listed if p.suffix == '.py']


def readers(header, texts):
    return sum('"%s"' % header.relative_to(ROOT) in text for text in texts)


def drawn(seed, rooms):
    """Mutants without end: the rooms in turn, a rule by lot, a line by lot."""
    by = collections.defaultdict(lambda: collections.defaultdict(list))
    for path in sources():
        for mutant in mutants_of(path):
            by[mutant.room][mutant.rule].append(mutant)
    lot = random.Random(seed)
    while True:
        for room in rooms:
            yield lot.choice(by[room][lot.choice(sorted(by[room]))])


def git(*arguments):
    return subprocess.run(['git', '-C', str(ROOT), *arguments], check=True, text=True,
                          stdout=subprocess.PIPE).stdout


# Building.

class Recipe:
    """How the tree's library is compiled and linked, by the build that stands."""

    def __init__(self):
        self.units = {}  # of a source: its unit's command
        for entry in json.loads((BUILD / 'compile_commands.json').read_text()):
            unit = pathlib.Path(entry['file'])
            if 'trireme.dir' not in entry['command']:
                continue
            for path in re.findall(r'#include "(/.*\.cc)"', unit.read_text()) or [str(unit)]:
                self.units[path] = entry
        commands = subprocess.run(['ninja', '-C', str(BUILD), '-t', 'commands', 'libtrireme.so'],
                                  check=True, text=True, stdout=subprocess.PIPE).stdout
        line = next(c for c in commands.split('\n') if '-shared -Wl,-soname,libtrireme.so' in c)
        self.link = shlex.split(line.removeprefix(': && ').partition(' && ')[0])

    def library(self, mutant, place):
        """Compiles what reads the mutated file and links the library anew; False when that fails."""
        (place / 'lib').mkdir()
        link = list(self.link)
        changed = [mutant.path]
        if mutant.path.endswith('.h'):
            changed = [name for name in git('grep', '-l', '#include "%s"' % mutant.path, '--', '*.cc').split()
                       if str(ROOT / name) in self.units]
        for number, unit in enumerate({self.units[str(ROOT / n)]['file']: self.units[str(ROOT / n)]
                                       for n in changed}.values()):
            source = place / ('unit%d.cc' % number)
            if 'Unity' in unit['file']:
                source.write_text(pathlib.Path(unit['file']).read_text().replace(
                    '"%s"' % (ROOT / mutant.path), '"%s"' % (place / mutant.path)))
            elif mutant.path.endswith('.h'):
                source.write_text('#include "%s"\n' % unit['file'])
            else:
                source.write_text('#include "%s"\n' % (place / mutant.path))
            command = shlex.split(unit['command'])
            made = command[command.index('-o') + 1]
            command[command.index('-o') + 1] = str(place / ('unit%d.o' % number))
            command[command.index('-c') + 1] = str(source)
            command = [word for word in command if word != '-Werror']
            command.insert(1, '-I%s' % place)
            if subprocess.run(command, cwd=BUILD, stderr=subprocess.DEVNULL).returncode != 0:
                return False
            link[link.index(made)] = str(place / ('unit%d.o' % number))
        link[link.index('-o') + 1] = str(place / 'lib' / 'libtrireme.so.0')
        return subprocess.run(link, cwd=BUILD, stderr=subprocess.DEVNULL).returncode == 0


def planted(mutant, place):
    """Writes the mutant into `place`; returns its diff."""
    old = (ROOT / mutant.path).read_text().split('\n')
    new = old[:mutant.line - 1] + [mutant.text] + old[mutant.line:]
    if mutant.room == 'python':
        shutil.copytree(ROOT / 'python', place / 'python', ignore=shutil.ignore_patterns('__pycache__'))
    path = place / mutant.path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text('\n'.join(new))
    return '\n'.join(difflib.unified_diff(old, new, mutant.path, mutant.path, lineterm='', n=1))


# Testing.

def run(command, seconds, place):
    """Exit code, or None when it took longer, and the seconds of processor time. That counts: others
    may be at work on the machine. One that waits for ever is ended after twenty times as long."""
    packages = place / 'python' if (place / 'python').exists() else ROOT / 'python'
    (place / 'tmp').mkdir(parents=True, exist_ok=True)
    environment = dict(os.environ, TRIREME_TEST_SEED='1', TMPDIR=str(place / 'tmp'),
                       LD_LIBRARY_PATH=str(place / 'lib'), PYTHONDONTWRITEBYTECODE='1',
                       PYTHONPATH='%s:%s' % (packages, BUILD / 'python'))
    with open(place / 'last.log', 'w') as log:
        process = subprocess.Popen(
            command, cwd=ROOT if 'pytest' in command else place / 'tmp', env=environment, stdout=log,
            stderr=log, stdin=subprocess.DEVNULL, start_new_session=True,
            preexec_fn=lambda: (resource.setrlimit(resource.RLIMIT_DATA, (MOST_MEMORY, MOST_MEMORY)),
                                resource.setrlimit(resource.RLIMIT_CORE, (0, 0))))
        end = time.time() + 20 * seconds
        done = False
        while not done and time.time() < end and cpu_seconds(process.pid) < seconds:
            time.sleep(0.05)
            done, status, usage = os.wait4(process.pid, os.WNOHANG)
        try:
            os.killpg(process.pid, signal.SIGKILL)  # also what it left behind
        except ProcessLookupError:
            pass
        if not done:
            _, _, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status) if done else None
        return process.returncode, usage.ru_utime + usage.ru_stime


def cpu_seconds(pid):
    """Of a process and of its children that have ended."""
    try:
        fields = pathlib.Path('/proc/%d/stat' % pid).read_text().rpartition(')')[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return sum(map(int, fields[11:15])) / os.sysconf('SC_CLK_TCK')


def all_checks():
    listed = subprocess.run(['ctest', '--show-only=json-v1'], cwd=BUILD, check=True, text=True,
                            stdout=subprocess.PIPE).stdout
    for test in json.loads(listed)['tests']:
        if test['name'] == 'installed_package' or not os.path.exists(test.get('command', [''])[0]):
            continue
        fast = ['--gtest_fail_fast'] if test['name'].startswith('tests_') else []
        yield Check(test['name'], (*test['command'], *fast))
    for path in sorted((ROOT / 'tests' / 'python').glob('test_*.py')):
        yield Check(path.name, (sys.executable, '-m', 'pytest', '-xq', '-p', 'no:cacheprovider',
                                str(path)))


def unharmed(head, most, pool):
    """Seconds of every check on the tree as it is. One that fails there, or takes more time than a
    mutant is given, can judge nothing."""
    kept = PLACE / 'seconds.json'
    known = json.loads(kept.read_text()) if kept.exists() else {}
    if known.get('commit') != head:
        known = {'commit': head}
    missing = [check for check in all_checks() if check.name not in known]
    runs = pool.map(lambda c: run(c.command, most, PLACE / ('unharmed_' + c.name)), missing)
    for check, (code, seconds) in zip(missing, runs):
        known[check.name] = seconds if code == 0 else None
        if code != 0:
            print('left out: %s %s without a mutant' % (
                check.name, 'takes too long' if code is None else 'fails'), flush=True)
    PLACE.mkdir(parents=True, exist_ok=True)
    kept.write_text(json.dumps(known))
    return {check: known[check.name] for check in all_checks() if known[check.name] is not None}


def ordered(mutant, checks):
    """What knows most about the mutated line first; of equals, the quickest."""
    stem = pathlib.Path(mutant.path).stem
    if mutant.path.endswith('.py'):
        above = (ROOT / mutant.path).read_text().split('\n')[:mutant.line]
        names = [stem] + re.findall(r'^\s*(?:def|class) (\w+)', '\n'.join(above), re.M)[-2:]

        def distance(check):
            text = (ROOT / 'tests' / 'python' / check.name).read_text()
            return -sum(bool(re.search(r'\b%s\b' % name, text)) for name in names)
        return sorted((c for c in checks if c.name.endswith('.py')),
                      key=lambda c: (distance(c), checks[c]))
    order = sorted(checks, key=lambda c: (c.name != 'tests_' + mutant.room,
                                          c.name.endswith('.py') != (mutant.room == 'python'),
                                          checks[c]))
    word = stem.split('_')[0]
    suites = sorted({suite for path in (ROOT / 'tests' / mutant.room).glob(word + '*_test.cc')
                     for suite in re.findall(r'^TEST(?:_[FP])?\((\w+),', path.read_text(), re.M)})
    first = [c for c in order[:1] if c.name == 'tests_' + mutant.room and suites]
    near = [Check(c.name + ' ' + word, c.command + ('--gtest_filter=' + ':'.join(
        '%s.*:*/%s.*' % (suite, suite) for suite in suites),)) for c in first]
    return near + order


def judge(mutant, place, checks, seconds, recipe):
    """('not built' | 'caught' | 'survived', by what)."""
    if mutant.path.endswith('.py'):
        try:
            compile((place / mutant.path).read_text(), mutant.path, 'exec')
        except SyntaxError:
            return 'not built', ''
    elif not recipe.library(mutant, place):
        return 'not built', ''
    used, done = 0, 0
    for check in ordered(mutant, checks):
        if used + checks.get(check, 0) > seconds:
            return 'survived', 'after %d checks: out of time' % done
        code, took = run(check.command, 5 * checks.get(check, 10) + 10, place)  # more is a hang
        if code != 0:
            return 'caught', check.name + (': hangs' if code is None else '')
        used, done = used + took, done + 1
    return 'survived', 'after all %d checks' % done


def tried(k, mutant, checks, options, recipe):
    """The mutant's verdict, by what, and its diff."""
    place = PLACE / str(k)
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    try:
        diff = planted(mutant, place)
        verdict, by = ('listed', '') if options.list else \
            judge(mutant, place, checks, options.seconds, recipe)
    finally:
        shutil.rmtree(place)
    print('%3d  %-9s  %-10s  %s:%d  %s' % (k, verdict, mutant.rule, mutant.path, mutant.line, by) +
          ('\n' + diff + '\n' if verdict in ('listed', 'survived') else ''), flush=True)
    return verdict


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('--count', type=int, default=20, help='mutants that compile')
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--rooms', default=','.join(ROOMS), help='where, by commas')
    parser.add_argument('--skip', type=int, default=0, help='mutants of the seed to pass over')
    parser.add_argument('--seconds', type=int, default=240, help='of processor time for the tests of one mutant')
    parser.add_argument('--jobs', type=int, default=os.cpu_count(), help='mutants judged at once')
    parser.add_argument('--list', action='store_true', help='print the mutants and run nothing')
    options = parser.parse_args()
    rooms = options.rooms.split(',')
    head = git('rev-parse', 'HEAD').strip()
    if not options.list:
        if git('status', '--porcelain', '--', *ROOMS, 'tests'):
            sys.exit('the tree has changes that are not committed: what is judged would have no name')
        subprocess.run(['cmake', '--preset', 'release', '-DPython_EXECUTABLE=/usr/bin/python3'], cwd=ROOT,
                       check=True, stdout=subprocess.DEVNULL)
        subprocess.run(['cmake', '--build', '--preset', 'release', '--parallel', str(options.jobs)],
                       cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    print('commit %s, seed %d, rooms %s' % (head[:12], options.seed, options.rooms), flush=True)
    numbers = collections.Counter()
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        checks = {} if options.list else unharmed(head, options.seconds, pool)
        recipe = None if options.list else Recipe()
        mutants = ((k, m) for k, m in enumerate(drawn(options.seed, rooms)) if k >= options.skip)
        running = {}

        def draw():
            k, mutant = next(mutants)
            running[pool.submit(tried, k, mutant, checks, options, recipe)] = mutant

        for _ in range(options.count):
            draw()
        while running:
            ended, _ = concurrent.futures.wait(running, return_when=concurrent.futures.FIRST_COMPLETED)
            for future in ended:
                mutant, verdict = running.pop(future), future.result()
                if verdict == 'not built':
                    draw()
                else:
                    numbers[mutant.room, verdict] += 1
    print('\n%-12s %8s %8s' % ('room', 'caught', 'survived'))
    for room in ROOMS:
        print('%-12s %8d %8d' % (room, numbers[room, 'caught'], numbers[room, 'survived']))
    print('%-12s %8d %8d' % ('all', sum(n for (_, v), n in numbers.items() if v == 'caught'),
                             sum(n for (_, v), n in numbers.items() if v == 'survived')))


if __name__ == '__main__':
    main()
