"""Programs that turn raw lines into samples for fluid.DatasetFactory: the pipe command of a dataset."""
import sys

__all__ = ['MultiSlotDataGenerator', 'MultiSlotStringDataGenerator']


class DataGenerator:
    """generate_sample(line) returns a generator function of [(name, [value, ...]), ...]."""

    def __init__(self):
        self.batch_size_ = 32
        self._names = None

    def set_batch(self, batch_size):
        """How many samples generate_batch gets at a time."""
        self.batch_size_ = batch_size

    def generate_sample(self, line):
        raise NotImplementedError(f'{type(self).__name__} must define generate_sample(line)')

    def generate_batch(self, samples):
        """Override it to look at several samples at once; returns a generator function too."""
        def local_iter():
            yield from samples
        return local_iter

    def run_from_stdin(self):
        """Lines of the standard input."""
        self._run(sys.stdin)

    def run_from_memory(self):
        """Without input: generate_sample(None) yields everything."""
        self._run([None])

    def _run(self, lines):
        held = []
        for line in lines:
            for sample in self.generate_sample(line)():
                if sample is None:
                    continue
                held.append(sample)
                if len(held) == self.batch_size_:
                    self._write(held)
                    held = []
        if held:
            self._write(held)

    def _write(self, samples):
        batch = self.generate_batch(samples)
        sys.stdout.writelines(self._gen_str(sample) for sample in batch())

    def _gen_str(self, line):
        if not isinstance(line, (list, tuple)):
            raise ValueError(f'a sample is a list of (name, values), got {type(line).__name__}: '
                             "[('words', [1926, 8, 17]), ('label', [1])]")
        names = [name for name, _ in line]
        if self._names is None:
            self._names = names
        elif names != self._names:
            raise ValueError(f'this sample has the fields {names}, the first one had {self._names}')
        for name, values in line:
            if not isinstance(name, str):
                raise ValueError(f'a name must be a str, got {type(name).__name__}')
            if not isinstance(values, (list, tuple)) or not values:
                raise ValueError(f'the values of {name} must be a list that is not empty: pad it')
            self._check_values(name, values)
        return ' '.join(f"{len(values)} {' '.join(map(str, values))}" for _, values in line) + '\n'

    def _check_values(self, name, values):
        """What kinds of values the lines may hold."""


class MultiSlotDataGenerator(DataGenerator):
    """Values are whole numbers or floats."""

    def _check_values(self, name, values):
        for value in values:
            if not isinstance(value, (int, float)):
                raise ValueError(f'the values of {name} must be int or float, got {type(value).__name__}')


class MultiSlotStringDataGenerator(DataGenerator):
    """Values are texts already: faster, and unchecked."""
