"""Awkward shapes, and numbers of the size that training meets, for more than one op."""

NC = [(1, 1), (1, 48), (3, 3), (31, 100), (64, 96), (129, 5), (5, 257)]
FLAT = [
    (1, 1),
    (1, 0),
    (5, 3),
    (64, 0),
    (100, 100),
    (1027, 1000),
    (4096, 2048),
]  # parameters, and how many of them decay


def about_one(normal, dims, random):
    return 1 + 0.2 * normal


def off_centre(normal, dims, random):
    """Each row by a number of its own."""
    return normal + 2 * random.standard_normal((len(normal), 1))
