"""A running weighted mean."""
import numpy as np

__all__ = ['WeightedAverage']

_NUMBERS = (int, float, np.ndarray, np.generic)


class WeightedAverage:
    """add(value, weight) after each batch; eval() is the mean of all of them."""

    def __init__(self):
        self.reset()

    def reset(self):
        """Forgets all values."""
        self.numerator = self.denominator = None

    def add(self, value, weight):
        """Numbers, or arrays of one shape; the weight is one number, as a rule the batch's rows."""
        if not isinstance(value, _NUMBERS):
            raise ValueError(f'WeightedAverage adds up numbers and numpy arrays, got {type(value).__name__}')
        if np.size(weight) != 1:
            raise ValueError(f'the weight of a value is one number, got {np.size(weight)}')
        first = self.denominator is None
        self.numerator = value * weight if first else self.numerator + value * weight
        self.denominator = weight if first else self.denominator + weight

    def eval(self):
        if self.denominator is None:
            raise ValueError('WeightedAverage has seen no data: call add first')
        return self.numerator / self.denominator
