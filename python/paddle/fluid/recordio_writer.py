"""RecordIO files, which the original itself has dropped: the names say what to use instead."""
__all__ = ['convert_reader_to_recordio_file', 'convert_reader_to_recordio_files', 'create_recordio_writer']


def _refusal(name):
    def refuse(*args, **kwargs):
        raise NotImplementedError(f'{name}: there are no RecordIO files any more. Write samples with '
                                  'paddle.dataset.common.split, and read them with cluster_files_reader into a DataLoader')
    refuse.__name__ = refuse.__qualname__ = name
    return refuse


convert_reader_to_recordio_file = _refusal('convert_reader_to_recordio_file')
convert_reader_to_recordio_files = _refusal('convert_reader_to_recordio_files')
create_recordio_writer = _refusal('create_recordio_writer')
