"""A run's film: what its model wrote at steps 0, 10, 30, 100, 300, …, from noise to words.

Frames are made on every machine, however slow. Their length is fixed, or in a timed run chosen with the run before it
begins, and does not depend on the clock from then on: equal runs keep equal films.
"""

FRAME_BYTES = 120
FIRST = (0, 10, 30)


def in_film(step: int) -> bool:
    """Whether the film has a frame of this step."""
    while step >= 100 and step % 10 == 0:
        step //= 10
    return step in FIRST


def frame_after(step: int) -> int:
    """The next step that has a frame."""
    power = 1
    while True:
        for first in FIRST[1:]:
            if first * power > step:
                return first * power
        power *= 10


def frames_until(steps: int) -> int:
    """How many frames a run of that length has."""
    count, step = 1, 0
    while frame_after(step) <= steps:
        step = frame_after(step)
        count += 1
    return count
