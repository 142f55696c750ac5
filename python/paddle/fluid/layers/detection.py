"""Detection layers: none is built yet."""


def __getattr__(name):
    if name.startswith('__'):
        raise AttributeError(name)
    raise NotImplementedError(f'layers.detection.{name} is not built yet in Trireme')
