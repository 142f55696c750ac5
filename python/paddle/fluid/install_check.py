"""run_check: whether what is installed trains."""
import _trireme as _C

__all__ = ['run_check']


def run_check():
    """Trains one small net on one place and on two, and says whether the numbers are those that they must be."""
    import numpy as np
    from . import core, layers, optimizer, unique_name
    from .compiler import CompiledProgram
    from .executor import Executor, scope_guard
    from .framework import Program, program_guard
    from .initializer import Constant

    def trained(places):
        main, startup = Program(), Program()
        with program_guard(main, startup), unique_name.guard(), scope_guard(core.Scope()):
            x = layers.data('x', [2])
            loss = layers.mean(layers.fc(x, 3, param_attr=Constant(0.5)))
            optimizer.SGD(0.1).minimize(loss)
            exe = Executor(core.CPUPlace())
            exe.run(startup)
            compiled = CompiledProgram(main)
            if places > 1:
                compiled = compiled.with_data_parallel(loss.name, places=[core.CPUPlace()] * places)
            losses = [exe.run(compiled, feed={'x': np.ones((4, 2), 'float32')}, fetch_list=[loss])[0].mean()
                      for _ in range(3)]
        return np.array(losses)
    # The mean of three outputs of two ones: a step changes each weight and bias by -0.1 / 3, the mean by -0.1.
    wanted = np.array([1.0, 0.9, 0.8])
    for places in (1, 2):
        losses = trained(places)
        if not np.allclose(losses, wanted, atol=1e-5):
            raise RuntimeError(f'on {places} places a small net has the losses {losses}, not {wanted}: this '
                               'installation computes wrong numbers')
        print(f'Trireme {_C.version} trains on {places} CPU place{"s" if places > 1 else ""}')
