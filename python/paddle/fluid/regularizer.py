"""Weight decay."""
from _trireme import (L1DecayRegularizer, L2DecayRegularizer, WeightDecayRegularizer,
                      append_regularization_ops)

__all__ = ['L1Decay', 'L2Decay', 'L1DecayRegularizer', 'L2DecayRegularizer',
           'WeightDecayRegularizer', 'append_regularization_ops']

L1Decay = L1DecayRegularizer
L2Decay = L2DecayRegularizer
