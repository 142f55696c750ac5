"""A running weighted mean."""
import numpy as np

__all__ = ['WeightedAverage']


class WeightedAverage:
    def __init__(self):
        self.reset()

    def reset(self):
        self.numerator = None
        self.denominator = None

    def add(self, value, weight):
        if not isinstance(value, (int, float, np.ndarray, np.generic)):
            raise ValueError("'value' must be a number or a numpy array")
        if np.ndim(weight) and np.size(weight) != 1:
            raise ValueError("'weight' must be a number")
        if self.numerator is None:
            self.numerator, self.denominator = value * weight, weight
        else:
            self.numerator = self.numerator + value * weight
            self.denominator = self.denominator + weight

    def eval(self):
        if self.numerator is None or self.denominator is None:
            raise ValueError('WeightedAverage has seen no data: call add first')
        return self.numerator / self.denominator
