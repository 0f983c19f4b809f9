from kernel_tests import KernelTests


class TestPickRow(KernelTests):
    kernel = "pick_row"
    cases = [
        {"N": N, "C": C, "position": p, "row": 0} for N, C, p in [(1, 1, 0), (5, 3, 4), (31, 48, 0), (64, 100, 33)]
    ]
    cases += [{"N": 7, "C": 12, "R": 3, "position": [6, 4, 2], "row": 2}]
    exact = True

    def formula(self, *, x, position, row, **_):
        return {"y": x[position[row]]}
