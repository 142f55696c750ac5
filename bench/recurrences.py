#!/usr/bin/env python3
"""Recurrences as users write them, of the engine and of its peers, side by side.

Loops from Python: StaticRNN, DynamicRNN, While, cells, a decoder with attention, a language model
with its words inside the loop, and the recurrent layers; 30 steps of 32 rows, 512 wide. The peers
have them as their users write them and, where they have a fused layer for it, as that.

    cmake --build --preset release --target bench
    python3 bench/recurrences.py static_rnn --passes 5
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / 'support'))
import table  # noqa: E402

table.main(__doc__, ('static_rnn', 'dynamic_rnn', 'while_loop', 'gru_cells', 'dynamic_gru', 'lstm_layers',
                     'attention', 'words'), reps=3, secs=0.3)
