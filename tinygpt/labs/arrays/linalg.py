"""numpy.linalg, as far as it is used."""

import math


def norm(x):
    return math.sqrt(sum([value * value for value in x.flat()]))
