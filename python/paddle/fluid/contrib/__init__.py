"""fluid.contrib: what is named here says that it is not built yet."""


def __getattr__(name):
    if name.startswith('__'):
        raise AttributeError(name)
    raise NotImplementedError(f'paddle.fluid.contrib.{name} is not built yet in Trireme')
