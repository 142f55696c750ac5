"""Where the files of data sets are, and readers over parts of them."""
import glob
import hashlib
import importlib
import os
import pickle
import shutil
import urllib.parse
import urllib.request

__all__ = ['DATA_HOME', 'download', 'md5file', 'split', 'cluster_files_reader']

DATA_HOME = os.path.expanduser('~/.cache/paddle/dataset')

_SECONDS_TO_CONNECT = 10


def unreadable(path, problem):
    return ValueError(f'{path} is not the file it should be: {problem}. Put the original file there')


def member(archive, path, name):
    """A file of an open tar archive, which must be there; a leading ./ does not count."""
    found = next((m for m in archive if m.name.removeprefix('./') == name), None)
    if found is None:
        raise unreadable(path, f'it has no {name}')
    return archive.extractfile(found)


def md5file(fname):
    digest = hashlib.md5()
    with open(fname, 'rb') as file:
        for part in iter(lambda: file.read(1 << 20), b''):
            digest.update(part)
    return digest.hexdigest()


def download(url, module_name, md5sum, save_name=None):
    """The path of url's file in the cache; it is fetched when it is not there or not the right one."""
    folder = os.path.join(DATA_HOME, module_name)
    name = save_name or url.split('/')[-1]
    # Some addresses end in folder%2Ffile: what was saved by hand has the file's own name.
    paths = [os.path.join(folder, n) for n in dict.fromkeys((name, urllib.parse.unquote(name).split('/')[-1]))]
    wrong = ''
    for path in filter(os.path.isfile, paths):
        found = md5file(path)
        if md5sum in (found, None):
            return path
        wrong = f'{path} has the md5 sum {found}, not {md5sum}; '
    _fetch(url, paths[0], md5sum, wrong, paths[-1])
    return paths[0]


def _fetch(url, path, md5sum, wrong, wanted):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    part = f'{path}.{os.getpid()}.part'
    try:
        with urllib.request.urlopen(url, timeout=_SECONDS_TO_CONNECT) as source, \
                open(part, 'wb') as target:
            shutil.copyfileobj(source, target)
        found = md5file(part)
        if md5sum not in (found, None):
            raise OSError(f'what it gives has the md5 sum {found}, not {md5sum}')
        os.replace(part, path)
    except (OSError, ValueError) as error:
        raise RuntimeError(f'{wrong}{url} cannot be fetched ({error}): put the file with the md5 sum '
                           f'{md5sum} at {wanted}') from None
    finally:
        if os.path.exists(part):
            os.remove(part)


def fetch_all():
    """Sees to it that the files of every data set are in the cache."""
    import paddle.dataset
    for name in paddle.dataset.__all__:
        module = importlib.import_module(f'paddle.dataset.{name}')
        if hasattr(module, 'fetch'):
            module.fetch()


def convert(output_path, reader, line_count, name_prefix):
    raise NotImplementedError('paddle.dataset.common.convert writes RecordIO files, which the original itself has '
                              'dropped: use paddle.dataset.common.split and cluster_files_reader')


def split(reader, line_count, suffix='%05d.pickle', dumper=pickle.dump):
    """Writes what reader yields into files of line_count samples; suffix numbers them."""
    if not callable(dumper):
        raise TypeError('dumper should be callable.')
    samples, number = [], 0
    for sample in reader():
        samples.append(sample)
        if len(samples) == line_count:
            with open(suffix % number, 'wb') as file:
                dumper(samples, file)
            samples, number = [], number + 1
    if samples:
        with open(suffix % number, 'wb') as file:
            dumper(samples, file)


def cluster_files_reader(files_pattern, trainer_count, trainer_id, loader=pickle.load):
    """The samples of this trainer's share of the files that split wrote."""
    def reader():
        if not callable(loader):
            raise TypeError('loader should be callable.')
        for number, name in enumerate(sorted(glob.glob(files_pattern))):
            if number % trainer_count == trainer_id:
                with open(name, 'rb') as file:
                    yield from loader(file)
    return reader
