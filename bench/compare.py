#!/usr/bin/env python3
"""Training steps of the engine and of its peers, side by side.

Every workload is a program of fixed shapes, from Python on both sides; convolutions also without
Winograd's algorithm, and all also from C++, against PyTorch's C++ where it is written out.
`support/table.py` says how sides are run, `support/peers.py` which there are.

    cmake --build --preset release --target bench
    python3 bench/compare.py mlp lenet --passes 5
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / 'support'))
import table  # noqa: E402

table.main(__doc__, ('toy', 'fit_a_line', 'mlp', 'lenet', 'ngram', 'ctr_sgd', 'ctr_adagrad', 'lstm', 'vgg16',
                     'resnet50', 'transformer'), in_cpp=True)
