"""A wheel trains where nothing of ours is on the path, and loads no library that it does not bring along."""
import glob
import os
import re
import shutil
import subprocess
import sys
import zipfile

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TRAIN = '''
import numpy as np
import paddle.fluid as fluid

picture, digit = fluid.data('picture', [None, 3, 8, 8]), fluid.data('digit', [None, 1], 'int64')
scores = fluid.layers.fc(fluid.layers.conv2d(picture, 8, 3, act='relu'), 10)
loss = fluid.layers.mean(fluid.layers.softmax_with_cross_entropy(scores, digit))
fluid.optimizer.Adam(0.01).minimize(loss)
exe = fluid.Executor(fluid.CPUPlace())
exe.run(fluid.default_startup_program())
chance = np.random.RandomState(1)
feed = {'picture': chance.rand(16, 3, 8, 8).astype('float32'), 'digit': chance.randint(0, 10, (16, 1))}
losses = [exe.run(feed=feed, fetch_list=[loss])[0].item() for _ in range(60)]
assert losses[-1] < losses[0] / 2, losses
print(fluid.__file__)
for line in open('/proc/self/maps'):
    print(line.split()[-1])
'''
needs_patchelf = pytest.mark.skipif(not shutil.which('patchelf'), reason='patchelf is not installed')


@pytest.fixture(scope='module')
def installed(tmp_path_factory):
    """A new environment with nothing but the wheel and, from the Python it is made of, numpy."""
    folder = tmp_path_factory.mktemp('wheel')
    subprocess.run([sys.executable, os.path.join(ROOT, 'tools', 'wheel.py'), '--into', str(folder)], check=True)
    wheel, = glob.glob(str(folder / '*.whl'))
    base = os.path.join(sys.base_prefix, 'bin', 'python%d.%d' % sys.version_info[:2])
    environment = folder / 'environment'
    subprocess.run([base, '-m', 'venv', '--system-site-packages', str(environment)], check=True)
    python = str(environment / 'bin' / 'python')
    subprocess.run([python, '-m', 'pip', 'install', '--quiet', '--no-index', '--no-deps', wheel], check=True)
    return wheel, python


@needs_patchelf
def test_it_trains_with_what_it_brings_along(installed, tmp_path):
    _, python = installed
    script = tmp_path / 'train.py'
    script.write_text(TRAIN)
    environment = {name: value for name, value in os.environ.items() if name not in ('PYTHONPATH', 'LD_LIBRARY_PATH')}
    said = subprocess.run([python, str(script)], check=True, capture_output=True, text=True, cwd=tmp_path,
                          env=environment).stdout.split('\n')
    assert os.path.dirname(os.path.dirname(python)) in said[0], 'another paddle was imported'
    loaded = {os.path.basename(path) for path in said if '/trireme.libs/' in path}
    for library in ('libtrireme', 'libdnnl', 'libgrpc', 'libprotobuf', 'libgloo', 'libopenblas'):
        assert any(re.match(library + r'-[0-9a-f]{8}\.so', name) for name in loaded), f'{library} is not the own one'
    # numpy is Debian's and has its own BLAS; all else of these names would be a library that was not brought along.
    strangers = [path for path in said if '/trireme.libs/' not in path and
                 re.search(r'/lib(trireme|dnnl|grpc|protobuf|gloo|absl|re2|cares|hiredis)[^/]*\.so', path)]
    assert not strangers


@needs_patchelf
def test_it_says_what_it_is_and_whose_parts_it_has(installed):
    wheel, python = installed
    assert re.search(r'-cp%d%d-cp%d%d-manylinux_2_\d+_' % (sys.version_info[:2] * 2), wheel)
    names = zipfile.ZipFile(wheel).namelist()
    assert not [name for name in names if name.endswith('.pyc') or 'libc.so' in name or 'libstdc++' in name]
    texts = [os.path.basename(name) for name in names if '.dist-info/licenses/' in name]
    assert {'LICENSE', 'NOTICE'} <= set(texts) and [text for text in texts if text.startswith('libopenblas')]
    checked = subprocess.run([python, '-m', 'pip', 'show', '--files', 'trireme'], check=True, capture_output=True, text=True)
    assert 'Version: 0.1.0' in checked.stdout and 'trireme.libs/libtrireme-' in checked.stdout
