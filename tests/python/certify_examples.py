"""Certifies every example: run by hand, or by `make certificates`.

    certify_examples.py [NAME...]    ends with 1 where a certificate is not `the same`
"""
import glob
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# A way to run a program stands in the first lines of its text: [mlp|conv].
WAYS = re.compile(r'\w+\.py \[([\w|]+)\]')
STEPS = 8


def commands(names):
    programs = sorted(path for folder in ('detection', 'fluid', 'static') for path in glob.glob(os.path.join(ROOT, 'examples', folder, '*.py')))
    for path in programs + [os.path.join(ROOT, 'examples', 'demo.py')]:
        with open(path) as file:
            text = file.read()
        if '__main__' not in text or (names and os.path.basename(path) not in names):
            continue
        ways = WAYS.search(text)
        for way in ways.group(1).split('|') if ways else ['']:
            yield path, way


def main(names):
    wrong = 0
    for path, way in commands(names):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([sys.executable, '-m', 'paddle.certify', path, *([way] if way else []), '--stop-after', str(STEPS),
                                   '-o', os.path.join(folder, 'c.html')], capture_output=True, text=True, timeout=300)
        print(f'{os.path.basename(path)} {way}: {done.stdout.strip().splitlines()[-1] if done.stdout.strip() else done.stderr}')
        for line in done.stdout.splitlines():
            if re.search(r'  (differs|not run)  ', line) and not line.startswith('  GPU'):
                print('  ' + line)
        wrong += done.returncode != 0
    print(f'{wrong} of them not the same')
    return min(wrong, 1)


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
