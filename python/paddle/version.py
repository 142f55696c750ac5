"""Versions: the one programs ask for, and this engine's own."""
import _trireme as _C

full_version = '2.4.2'
major, minor, patch, rc = '2', '4', '2', '0'
istaged = True
with_mkl = 'OFF'
commit = 'trireme-' + _C.version
trireme_version = _C.version


def show():
    print(f'full_version: {full_version}')
    print(f'trireme_version: {trireme_version}')


def cuda():
    return 'False'


def cudnn():
    return 'False'
