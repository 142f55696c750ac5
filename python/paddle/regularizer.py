"""Weight decay under its 2.4 names."""
import _trireme as _C

__all__ = ['L1Decay', 'L2Decay']


class L1Decay(_C.L1DecayRegularizer):
    def __init__(self, coeff=0.0):
        super().__init__(coeff)


class L2Decay(_C.L2DecayRegularizer):
    def __init__(self, coeff=0.0):
        super().__init__(coeff)
