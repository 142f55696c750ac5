"""pslib is a closed library that the original can be built with."""


class _Missing:
    def __getattr__(self, name):
        raise NotImplementedError(f'pslib.fleet.{name}: pslib is a closed library, which is not here. '
                                  'fluid.incubate.fleet.parameter_server.distribute_transpiler has parameter '
                                  'servers')


fleet = _Missing()
