import numpy as np
from kernel_tests import KernelTests

from tinygpt.core.rng import BATCH, EVAL, window_offsets


def window_case(B, T, bytes, seed, purpose, *counters):
    """`counters`: steps done, batches of the step done, batches of the validation done."""
    return {"B": B, "T": T, "bytes": bytes, "seed": seed, "purpose": purpose, "counters": [*counters, 7]}


class TestDrawWindows(KernelTests):
    kernel = "draw_windows"
    cases = [
        window_case(*sizes, seed, purpose, *counters)
        for sizes in [(1, 1, 2), (3, 5, 6), (7, 17, 1001), (16, 32, 70_001)]
        for seed, purpose, counters in [
            (0, BATCH, (0, 0, 9)),
            (1337, BATCH, (41, 2, 9)),
            (2**32 - 1, BATCH, (2**31 - 2, 1, 0)),
            (2**31, EVAL, (5, 3, 0)),
            (7, EVAL, (0, 0, 3)),
        ]
    ]
    long_cases = [window_case(33, 37, 5000, 3, BATCH, 8, 1, 0)]

    def formula(self, *, corpus, counters, B, T, bytes, seed, purpose, **_):
        steps, of_step, of_validation, _ = counters.tolist()
        step, part = (steps + 1, of_step) if purpose == BATCH else (0, of_validation)
        starts = window_offsets(seed, purpose, step, (part + 1) * B, bytes, T)[-B:]
        windows = np.array([corpus[start : start + T + 1].tolist() for start in starts])
        return {"tokens": windows[:, :-1], "targets": windows[:, 1:]}
