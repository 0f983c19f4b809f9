"""Numbers by chance, the same for the same seed. They are not NumPy's."""

import math

from tinygpt.core.rng import philox
from tinygpt.labs.arrays.dtypes import float64, int64
from tinygpt.labs.arrays.making import shaped
from tinygpt.labs.arrays.places import size_of
from tinygpt.labs.arrays.strided import ndarray

PURPOSE = 99


class Generator:
    def __init__(self, seed):
        self.seed, self.calls, self.left = seed & 0xFFFFFFFF, 0, []

    def word(self):
        if not self.left:
            self.left = list(philox((self.seed, PURPOSE), (self.calls, 0, 0, 0)))
            self.calls += 1
        return self.left.pop()

    def made(self, size, dtype, one):
        if size is None:
            return one()
        shape = shaped(size)
        return ndarray([one() for _ in range(size_of(shape))], shape, dtype)

    def uniform(self, low=0.0, high=1.0, size=None):
        return self.made(size, float64, lambda: low + (high - low) * self.word() / 2**32)

    def random(self, size=None):
        return self.uniform(size=size)

    def one_normal(self):
        radius = math.sqrt(-2.0 * math.log((self.word() + 1) / 2**32))
        return radius * math.cos(2 * math.pi * self.word() / 2**32)

    def normal(self, mean=0.0, std=1.0, size=None):
        return self.made(size, float64, lambda: mean + std * self.one_normal())

    def standard_normal(self, size=None):
        return self.normal(size=size)

    def integers(self, low, high, size=None):
        return self.made(size, int64, lambda: low + self.word() % (high - low))


def default_rng(seed=0):
    return Generator(seed)
