import numpy as np
import torch
from kernel_tests import KernelTests

from tinygpt.labs.bounds import sigmoid_and_error
from tinygpt.labs.rounding import U

BTC = [(1, 1, 1), (2, 3, 5), (3, 7, 16), (1, 65, 33), (4, 17, 100), (2, 64, 48)]
CASES = [{"B": B, "T": T, "C": C} for B, T, C in BTC]
FILLS = {"gate": lambda normal, dims, random: 3 * normal}  # all but shut or open too


def scanned(gate, value, B, T, C):
    z, rest, v = torch.sigmoid(gate).view(B, T, C), torch.sigmoid(-gate).view(B, T, C), value.view(B, T, C)
    rows = [z[:, 0] * v[:, 0]]
    for t in range(1, T):
        rows.append(rest[:, t] * rows[-1] + z[:, t] * v[:, t])
    return torch.stack(rows, dim=1).reshape(B * T, C)


def shares(gate, B, T, C):
    """z and 1 - z, each with its relative error."""
    return [x.reshape(B, T, C) for x in (*sigmoid_and_error(gate), *sigmoid_and_error(-gate))]


class TestScan(KernelTests):
    kernel = "scan"
    cases = CASES
    long_cases = [{"B": 40, "T": 2, "C": 100}]
    fills = FILLS

    def formula(self, *, gate, value, B, T, C, **_):
        return {"y": scanned(gate, value, B, T, C)}

    def bound(self, *, gate, value, y, B, T, C, **_):
        """e_t = (1 - z) e_(t-1) + what this row rounds: each share's own error, a product each, and the sum."""
        z, z_off, rest, rest_off = shares(gate, B, T, C)
        exact = scanned(torch.from_numpy(gate), torch.from_numpy(value), B, T, C).numpy().reshape(B, T, C)
        off, v = np.zeros((B, T, C)), np.abs(value).reshape(B, T, C)
        for t in range(T):
            kept = rest[:, t] * np.abs(exact[:, t - 1]) if t else 0.0
            taken = z[:, t] * v[:, t]
            off[:, t] = kept * (rest_off[:, t] + U) + taken * (z_off[:, t] + U) + U * (kept + taken)
            if t:
                off[:, t] += rest[:, t] * off[:, t - 1]
        return {"y": (1 + 2 * U * T) * off.reshape(B * T, C)}


class TestScanBackward(KernelTests):
    kernel = "scan_backward"
    cases = CASES
    long_cases = [{"B": 40, "T": 2, "C": 100}]
    forward = "scan"
    small_cases = [{"B": 1, "T": 1, "C": 1}, {"B": 2, "T": 4, "C": 3}]
    fills = FILLS

    def settle(self, case):
        y = scanned(torch.from_numpy(case["gate"]), torch.from_numpy(case["value"]), case["B"], case["T"], case["C"])
        case["y"] = y.numpy().astype(case["y"].dtype)

    def formula(self, *, dy, gate, value, y, B, T, C, **_):
        """As a sum: row t counts for row s by the product of 1 - z over the rows after t, up to s."""
        d_out, g, v = (x.view(B, T, C) for x in (dy, gate, value))
        rest, left = torch.sigmoid(-g), torch.nn.functional.pad(y.view(B, T, C), (0, 0, 1, -1))
        d = torch.zeros(B, T, C, dtype=dy.dtype)
        for t in range(T):
            passed = torch.cumprod(torch.cat([torch.ones_like(rest[:, :1]), rest[:, t + 1 :]], dim=1), dim=1)
            d[:, t] = (passed * d_out[:, t:]).sum(dim=1)
        dvalue = torch.sigmoid(g) * d
        return {"dgate": ((v - left) * rest * dvalue).view(B * T, C), "dvalue": dvalue.view(B * T, C)}

    def bound(self, *, dy, gate, value, y, B, T, C, **_):
        z, z_off, rest, rest_off = shares(gate, B, T, C)
        d_out, v, left = (x.reshape(B, T, C) for x in (dy, value, y))
        dgate, dvalue = np.zeros((B, T, C)), np.zeros((B, T, C))
        passed = passed_off = np.zeros((B, C))
        for t in reversed(range(T)):
            d = d_out[:, t] + passed
            d_off = passed_off + U * np.abs(d)
            passed = rest[:, t] * d
            passed_off = rest[:, t] * d_off + np.abs(passed) * (rest_off[:, t] + U)
            taken = v[:, t] - (left[:, t - 1] if t else 0)
            dvalue[:, t] = z[:, t] * d_off + np.abs(z[:, t] * d) * (z_off[:, t] + U)
            size = np.abs(taken) * z[:, t]
            dgate[:, t] = size * passed_off + size * np.abs(passed) * (z_off[:, t] + 3 * U)
        slack = 1 + 2 * U * T
        return {"dgate": slack * dgate.reshape(B * T, C), "dvalue": slack * dvalue.reshape(B * T, C)}


class TestScanOne(KernelTests):
    kernel = "scan_one"
    cases = [{"R": R, "C": C} for R, C in [(1, 1), (1, 48), (3, 5), (2, 100), (15, 33)]]
    long_cases = [{"R": 40, "C": 100}]
    fills = FILLS

    def formula(self, *, gate, value, state, **_):
        return {"y": torch.sigmoid(-gate) * state + torch.sigmoid(gate) * value}

    def bound(self, *, gate, value, state, **_):
        z, z_off = sigmoid_and_error(gate)
        rest, rest_off = sigmoid_and_error(-gate)
        kept, taken = np.abs(rest * state), np.abs(z * value)
        return {"y": kept * (rest_off + U) + taken * (z_off + U) + U * (kept + taken)}


class TestScanKeep(KernelTests):
    kernel = "scan_keep"
    cases = [{"N": R, "C": C, "R": R, "position": None, "row": None} for R, C in [(1, 1), (3, 5), (2, 48)]]
    cases += [{"N": N, "C": C, "position": p, "row": 0} for N, C, p in [(1, 1, 0), (5, 3, 4), (31, 48, 0)]]
    cases += [{"N": 7, "C": 12, "R": 3, "position": [6, 4, 2], "row": 2}]
    long_cases = [{"N": 9, "C": 100, "R": 9, "position": None, "row": None}]
    exact = True

    def formula(self, *, x, position, row, state, **_):
        if row is None:
            return {"state": x}
        state[row] = x[position[row]]
        return {"state": state}
