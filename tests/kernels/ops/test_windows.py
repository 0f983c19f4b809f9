import numpy as np
from kernel_tests import KernelTests

from tinygpt.core.rng import BATCH, EVAL, MASK, shuffled_offsets, window_offsets


def window_case(B, T, bytes, seed, purpose, *counters, parts=0):
    """`counters`: steps done, batches of the step done, batches of the validation done."""
    case = {"B": B, "T": T, "bytes": bytes, "seed": seed, "purpose": purpose, "counters": [*counters, 7]}
    return case | {"parts": parts}


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
    cases += [
        window_case(*sizes, seed, BATCH, *counters, parts=parts)
        for sizes in [(1, 1, 2), (3, 5, 6), (5, 4, 12), (7, 17, 1001), (16, 32, 70_001)]
        for seed, counters, parts in [(0, (0, 0, 9), 1), (2**32 - 1, (41, 2, 9), 3), (7, (2**31 - 2, 1, 0), 2)]
    ]
    long_cases = [window_case(33, 37, 5000, 3, BATCH, 8, 1, 0)]

    def formula(self, *, corpus, counters, B, T, bytes, seed, purpose, parts, **_):
        steps, of_step, of_validation, _ = counters.tolist()
        step, part = (steps + 1, of_step) if purpose == BATCH else (0, of_validation)
        starts = window_offsets(seed, purpose, step, (part + 1) * B, bytes, T)[-B:]
        if parts:
            starts = shuffled_offsets(seed, (steps * parts + part) * B & MASK, B, bytes, T)
        windows = np.array([corpus[start : start + T + 1].tolist() for start in starts])
        return {"tokens": windows[:, :-1], "targets": windows[:, 1:]}
