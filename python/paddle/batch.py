"""batch: samples of a reader, several at a time."""

__all__ = ['batch']


def batch(reader, batch_size, drop_last=False):
    """A reader of lists of batch_size samples; the last one may be shorter, or is dropped."""
    batch_size = int(batch_size)
    if batch_size <= 0:
        raise ValueError(f'batch_size must be positive, got {batch_size}')

    def batches():
        held = []
        for sample in reader():
            held.append(sample)
            if len(held) == batch_size:
                yield held
                held = []
        if held and not drop_last:
            yield held
    return batches
