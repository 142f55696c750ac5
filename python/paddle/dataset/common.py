"""Where the files of data sets are, and readers over parts of them."""
import glob
import hashlib
import os
import pickle
import shutil
import urllib.request

__all__ = ['DATA_HOME', 'download', 'md5file', 'split', 'cluster_files_reader']

DATA_HOME = os.path.expanduser('~/.cache/paddle/dataset')


def cached(module_name, file_name):
    """The path of a data set's file, which must be there."""
    path = os.path.join(DATA_HOME, module_name, file_name)
    if not os.path.isfile(path):
        raise FileNotFoundError(f'paddle.dataset.{module_name} needs {path}, which is not there, and '
                                'Trireme downloads no data sets: put the file there')
    return path


def unreadable(path, problem):
    return ValueError(f'{path} is not the file it should be: {problem}. Put the original file there')


def not_read_here(name):
    """The __getattr__ of a data set that is not built yet."""
    def __getattr__(attribute):
        if attribute.startswith('__'):
            raise AttributeError(attribute)
        raise NotImplementedError(f'paddle.dataset.{name} is not built yet in Trireme: read its files '
                                  'with a generator of your own')
    return __getattr__


def md5file(fname):
    digest = hashlib.md5()
    with open(fname, 'rb') as file:
        for part in iter(lambda: file.read(1 << 20), b''):
            digest.update(part)
    return digest.hexdigest()


def download(url, module_name, md5sum, save_name=None):
    """The path of url's file in the cache; it is fetched when it is not there or not the right one."""
    folder = os.path.join(DATA_HOME, module_name)
    path = os.path.join(folder, save_name or url.split('/')[-1])
    if os.path.isfile(path) and md5file(path) == md5sum:
        return path
    os.makedirs(folder, exist_ok=True)
    part = path + '.part'
    try:
        with urllib.request.urlopen(url) as source, open(part, 'wb') as target:
            shutil.copyfileobj(source, target)
    except OSError as error:
        raise RuntimeError(f'{url} cannot be fetched ({error}): put the file at {path}') from error
    found = md5file(part)
    if found != md5sum:
        os.remove(part)
        raise RuntimeError(f'{url} has the md5 sum {found}, not {md5sum}: put the right file at {path}')
    os.replace(part, path)
    return path


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
