import numpy as np
from kernel_tests import KernelTests


def with_ties_and_strange_rows(normal, dims, random):
    """The largest logit twice, at the ends of a row and side by side; NaN and both infinities; a row of equals."""
    rows = normal.reshape(dims["N"], dims["V"])
    for n in range(0, len(rows), 3):
        rows[n, [n % dims["V"], -1]] = 9
    for n, strange in zip(range(1, len(rows), 3), (np.nan, np.inf, -np.inf), strict=False):
        rows[n, (7 * n) % dims["V"]] = strange
    rows[2::6] = -5
    return rows


class TestLikeliest(KernelTests):
    kernel = "likeliest"
    cases = [{"N": N, "V": V} for N, V in [(1, 1), (3, 5), (1, 256), (31, 256), (129, 100)]]
    wgsl_cases = [{"N": 600, "V": 256}]
    lanes_cases = [{"N": 37, "V": 100}]
    long_cases = [{"N": 129, "V": 12}]
    fills = {"logits": with_ties_and_strange_rows}
    exact = True

    def formula(self, *, logits, **_):
        best = []
        for row in logits.tolist():
            numbers = all(np.isfinite(row))
            best.append(sorted(range(len(row)), key=lambda v: (-row[v], v))[0] if numbers else -1)
        return {"best": best}
