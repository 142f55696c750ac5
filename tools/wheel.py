#!/usr/bin/env python3
"""Makes a wheel of the release build that brings along the libraries it links.

    .venv/bin/python tools/wheel.py [--build build/release] [--into dist]

In the wheel lie the package `paddle`, the extension module `_trireme`, and in trireme.libs/ our library and
all that it links but for glibc, libstdc++ and libgcc, which every Linux has. The bundled files have a hash in
their names, so that a process in which others of the same name are loaded keeps both, and find each other by
$ORIGIN. The tag of the platform is the newest glibc that any of them asks for. Licences of what is bundled
go along. Needs patchelf, strip and ldd.
"""
import argparse
import base64
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zipfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
NAME = 'trireme'
LIBRARIES = NAME + '.libs'
# What the platform tag stands for: the loader, glibc's own parts, and the compiler's run time beside it.
OF_THE_SYSTEM = re.compile(r'(linux-vdso|ld-linux[\w-]*|lib(c|m|dl|rt|pthread|resolv|util|nsl|anl|stdc\+\+|gcc_s))\.so')


def said_by(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def libraries_of(path):
    """soname -> file, of all that is loaded with this file and is not the system's."""
    found = {}
    for line in said_by('ldd', path).splitlines():
        name, _, rest = line.strip().partition(' => ')
        if OF_THE_SYSTEM.match(os.path.basename(name.split(' ')[0])):
            continue
        if rest.startswith('not found'):
            raise SystemExit(f'{path} needs {name}, which is not there')
        found[name] = os.path.realpath(rest.rsplit(' (', 1)[0])
    return found


def needed(path):
    return said_by('patchelf', '--print-needed', path).split()


def with_hash(soname, path):
    """libdnnl.so.2 -> libdnnl-0a1b2c3d.so.2"""
    with open(path, 'rb') as file:
        digest = hashlib.sha256(file.read()).hexdigest()[:8]
    base, _, rest = soname.partition('.so')
    return f'{base}-{digest}.so{rest}'


def bundle(module, stage):
    """Puts the module and what it links into the stage; returns the Debian files that were taken."""
    found = libraries_of(module)
    folder = os.path.join(stage, LIBRARIES)
    os.mkdir(folder)
    names = {soname: with_hash(soname, path) for soname, path in found.items()}
    placed = [os.path.join(stage, os.path.basename(module))]
    shutil.copy(module, placed[0])
    for soname, path in found.items():
        placed.append(os.path.join(folder, names[soname]))
        shutil.copy(path, placed[-1])
    for path in placed:
        os.chmod(path, 0o755)
        subprocess.run(['strip', '--strip-debug', path], check=True)
        # One change at a time: patchelf 0.14 mixes up names that it is given together.
        changes = [['--replace-needed', soname, names[soname]] for soname in needed(path) if soname in names]
        if path != placed[0]:
            changes.append(['--set-soname', os.path.basename(path)])
        changes.append(['--set-rpath', '$ORIGIN/' + LIBRARIES if path == placed[0] else '$ORIGIN'])
        for change in changes:
            subprocess.run(['patchelf', *change, path], check=True)
    check_closed(placed[0], folder)
    return [path for path in found.values() if not path.startswith(ROOT + os.sep)], placed


def check_closed(module, folder):
    """What the staged module loads is the stage's or the system's."""
    strangers = [path for path in libraries_of(module).values() if os.path.dirname(path) != os.path.realpath(folder)]
    if strangers:
        raise SystemExit('the wheel would still load ' + ', '.join(strangers))


def platform_tag(paths):
    """The oldest system that has what these files ask of glibc and libstdc++."""
    asked = ''.join(said_by('readelf', '--version-info', '--wide', path) for path in paths)
    glibc = max(tuple(map(int, found)) for found in re.findall(r'\bGLIBC_(\d+)\.(\d+)', asked))
    if max(map(int, re.findall(r'\bGLIBCXX_3\.4\.(\d+)', asked))) > 29:
        # Newer than the libstdc++ of systems with glibc 2.34: those like this one have it.
        glibc = max(glibc, tuple(map(int, platform.libc_ver()[1].split('.'))))
    return 'manylinux_%d_%d_%s' % (*glibc, platform.machine())


def licences(taken, folder):
    """The copyright file of every Debian package that a file was taken from; for others their path is named."""
    os.makedirs(folder)
    for name in ('LICENSE', 'NOTICE'):
        shutil.copy(os.path.join(ROOT, name), folder)
    # A file in /lib is one in /usr/lib to the list of packages, or the other way about: both are asked for.
    others = [path[len('/usr'):] if path.startswith('/usr/lib') else '/usr' + path for path in taken]
    said = subprocess.run(['dpkg', '-S', *taken, *others], capture_output=True, text=True).stdout
    owners = {line.rpartition(': ')[2].removeprefix('/usr'): line.partition(':')[0] for line in said.splitlines()}
    packages = {}
    for path in taken:
        package = owners.get(path.removeprefix('/usr'))
        if package is None:
            raise SystemExit(f'no Debian package says that {path} is its file: its licence is not known')
        packages.setdefault(package, []).append(os.path.basename(path))
    for package, files in sorted(packages.items()):
        with open(f'/usr/share/doc/{package}/copyright') as file:
            text = file.read()
        with open(os.path.join(folder, package + '.txt'), 'w') as file:
            file.write('Of the Debian package %s: %s\n\n%s' % (package, ', '.join(sorted(files)), text))
    return packages


def write_metadata(stage, version, tag):
    folder = os.path.join(stage, f'{NAME}-{version}.dist-info')
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(ROOT, 'README.md')) as file:
        readme = file.read()
    with open(os.path.join(folder, 'METADATA'), 'w') as file:
        file.write(f'Metadata-Version: 2.1\nName: {NAME}\nVersion: {version}\n'
                   "Summary: Runs programs written for PaddlePaddle's static-graph API\n"
                   'License: Apache-2.0\nRequires-Python: ==%d.%d.*\n' % sys.version_info[:2] +
                   'Requires-Dist: numpy\nDescription-Content-Type: text/markdown\n\n' + readme)
    with open(os.path.join(folder, 'WHEEL'), 'w') as file:
        file.write(f'Wheel-Version: 1.0\nGenerator: tools/wheel.py\nRoot-Is-Purelib: false\nTag: {tag}\n')


def pack(stage, path, record):
    """A wheel is a zip file, and a list of what is in it."""
    lines = []
    with zipfile.ZipFile(path, 'w', zipfile.ZIP_DEFLATED, compresslevel=6) as wheel:
        for folder, _, names in sorted(os.walk(stage)):
            for name in sorted(names):
                full = os.path.join(folder, name)
                inside = os.path.relpath(full, stage)
                with open(full, 'rb') as file:
                    content = file.read()
                digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b'=').decode()
                lines.append(f'{inside},sha256={digest},{len(content)}\n')
                wheel.write(full, inside)
        wheel.writestr(record, ''.join(lines) + f'{record},,\n')


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--build', default=os.path.join(ROOT, 'build', 'release'))
    parser.add_argument('--into', default=os.path.join(ROOT, 'dist'))
    args = parser.parse_args()
    lacking = [tool for tool in ('patchelf', 'strip', 'ldd', 'readelf') if not shutil.which(tool)]
    if lacking:
        raise SystemExit('missing, please install: ' + ', '.join(lacking) + ' (Debian: patchelf binutils libc-bin)')
    module = os.path.join(args.build, 'python', '_trireme' + sysconfig.get_config_var('EXT_SUFFIX'))
    if not os.path.exists(module):
        raise SystemExit(f'{module} is not there: build with this Python (make build PYTHON={sys.executable})')
    with open(os.path.join(ROOT, 'CMakeLists.txt')) as file:
        version = re.search(r'project\(Trireme VERSION ([\d.]+)', file.read())[1]
    os.makedirs(args.into, exist_ok=True)
    with tempfile.TemporaryDirectory() as stage:
        taken, placed = bundle(module, stage)
        shutil.copytree(os.path.join(ROOT, 'python', 'paddle'), os.path.join(stage, 'paddle'),
                        ignore=shutil.ignore_patterns('__pycache__', '*.pyc'))
        packages = licences(taken, os.path.join(stage, f'{NAME}-{version}.dist-info', 'licenses'))
        python = 'cp%d%d' % sys.version_info[:2]
        tag = f'{python}-{python}-{platform_tag(placed)}'
        write_metadata(stage, version, tag)
        path = os.path.join(args.into, f'{NAME}-{version}-{tag}.whl')
        pack(stage, path, f'{NAME}-{version}.dist-info/RECORD')
    print(f'{path}: {os.path.getsize(path) / 2 ** 20:.0f} MiB, {len(placed) - 2} libraries of '
          f'{len(packages)} Debian packages')


if __name__ == '__main__':
    main()
