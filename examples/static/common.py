"""What the programs here share: the data of examples/fluid, and a predictor that knows only the files of a model."""
import os
import random
import sys

import numpy as np
import paddle
from paddle import inference

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'fluid'))
import datasets  # noqa: E402
import made_sets  # noqa: E402

__all__ = ['begin', 'datasets', 'deploy', 'made_sets', 'predict']


def begin(seed):
    """Static programs from here on; whatever is drawn hangs on the seed."""
    paddle.enable_static()
    paddle.seed(seed)
    np.random.seed(seed)
    random.seed(seed)


def predict(prefix, arrays):
    """The first output of the model prefix.pdmodel, prefix.pdiparams."""
    predictor = inference.create_predictor(inference.Config(prefix + '.pdmodel', prefix + '.pdiparams'))
    for name, array in zip(predictor.get_input_names(), arrays):
        predictor.get_input_handle(name).copy_from_cpu(array)
    predictor.run()
    return predictor.get_output_handle(predictor.get_output_names()[0]).copy_to_cpu()


def deploy(folder, feeds, output, exe, arrays, wanted):
    """Saves what computes the output, loads it as a stranger would, and compares answers."""
    prefix = os.path.join(folder, 'deployed', 'model')
    paddle.static.save_inference_model(prefix, feeds, [output], exe)
    found = predict(prefix, arrays)
    # Where batch_norm has become part of a convolution, numbers are rounded otherwise.
    assert np.allclose(found, wanted, atol=1e-5)
    print('the loaded model answers as the trained one')
    return found
