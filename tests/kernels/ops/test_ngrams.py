"""N-gram tables, against a count of the bytes themselves, autograd's gradients of a lookup, and torch.optim.Adagrad."""

import numpy as np
import pytest
import torch
from cases import make_case
from kernel_tests import KernelTests

from tinygpt.core.ops.ngrams import tables_of
from tinygpt.kernels.ngrams import picked_rows
from tinygpt.kernels.spec import SPEC
from tinygpt.labs.rounding import DIVIDE, SQRT, U, gamma

EPS = 1e-10


def by_hand(last, E):
    """The row that bytes pick, the oldest first, with Python's own numbers."""
    if 256 ** len(last) <= E:
        return int.from_bytes(last, "big")
    number = len(last)
    for byte in last:
        number = ((number ^ byte) * 16777619) % 2**32
    number = number * 0x9E3779B1 % 2**32
    number = (number ^ number >> 15) * 0x85EBCA77 % 2**32
    return (number ^ number >> 13) % E


def orders_of(*tables):
    return sum(1 << n for n in tables)


class TestNgramEmbed(KernelTests):
    kernel = "ngram_embed"
    cases = [
        {"N": B * T, "T": T, "G": len(tables), "E": E, "W": W, "orders": orders_of(*tables)}
        for B, T, tables, E, W in [
            (1, 1, (1,), 256, 4),
            (2, 1, (2, 3), 256, 4),
            (3, 7, (2, 3, 4, 5), 1024, 16),
            (2, 17, (1, 2, 8), 65536, 8),
        ]
    ]
    long_cases = [{"N": 66, "T": 33, "G": 4, "E": 512, "W": 16, "orders": orders_of(2, 3, 4, 6)}]
    exact = True

    def formula(self, *, tokens, table, T, E, orders, **_):
        tables = tables_of(orders)
        rows = np.full((len(tokens), len(tables)), -1)
        for n in range(len(tokens)):
            for g, count in enumerate(tables):
                if n % T + 1 >= count:
                    rows[n, g] = g * E + by_hand(bytes(tokens[n - count + 1 : n + 1].tolist()), E)
        y = [[table[row] if row >= 0 else torch.zeros_like(table[0]) for row in line] for line in rows.tolist()]
        return {"y": torch.stack([torch.cat(line) for line in y]), "rows": rows}


class TestNgramEmbedOne(KernelTests):
    kernel = "ngram_embed_one"
    cases = [
        {"G": len(tables), "E": E, "W": W, "orders": orders_of(*tables), "R": len(position), "position": position}
        for position, tables, E, W in [([0], (1, 2), 256, 4), ([5, 0, 7], (2, 3, 4, 8), 4096, 16)]
    ]
    exact = True

    def formula(self, *, tokens, position, recent, table, E, orders, **_):
        lines = []
        for r in range(len(tokens)):
            last = [*recent[r].tolist()[::-1], int(tokens[r])]
            picked = []
            for g, count in enumerate(tables_of(orders)):
                known = int(position[r]) + 1 >= count
                picked.append(table[g * E + by_hand(bytes(last[-count:]), E)] if known else torch.zeros_like(table[0]))
            lines.append(torch.cat(picked))
        return {"y": torch.stack(lines)}


class TestNgramKeep(KernelTests):
    kernel = "ngram_keep"
    cases = [{"N": 3, "R": 3, "position": [4, 0, 9], "row": None}, {"N": 1, "R": 1, "position": [0], "row": None}]
    cases += [{"N": 12, "R": 3, "position": [2, 11, 5], "row": row} for row in (0, 1, 2)]
    cases += [{"N": 4, "R": 2, "position": [9, 0], "row": 1}]
    exact = True

    def formula(self, *, tokens, position, row, recent, R, **_):
        kept = recent.clone()
        for r in range(R) if row is None else [int(row)]:
            before = recent[r].tolist()[::-1]
            last = [*before, int(tokens[r])] if row is None else tokens[: int(position[r]) + 1].tolist()
            for back, byte in enumerate(last[::-1][:8]):
                kept[r, back] = byte
        return {"recent": kept}


class TestNgramCollect(KernelTests):
    kernel = "ngram_collect"
    cases = [{"N": N, "G": G, "W": 4, "parts": 3, "counters": [7, part, 1, 0]} for N, G, part in [(1, 1, 0), (5, 3, 2)]]
    long_cases = [{"N": 70, "G": 3, "W": 8, "parts": 2, "counters": [0, 1, 0, 0]}]
    exact = True

    def formula(self, *, rows, dy, counters, all_rows, all_dy, N, **_):
        here = slice(int(counters[1]) * N, (int(counters[1]) + 1) * N)
        all_rows[here], all_dy[here] = rows, dy
        return {"all_rows": all_rows, "all_dy": all_dy}


def few_rows(normal, dims, random):
    """Some named often, some never, and some places without one."""
    N, G, E = dims["N"], dims["G"], dims["E"]
    rows = np.minimum(random.integers(0, E, (N, G)), random.integers(0, E, (N, G))) + E * np.arange(G)
    rows[random.random((N, G)) < 0.1] = -1
    return rows


class TestAdagradRows(KernelTests):
    kernel = "adagrad_rows"
    cases = [
        {"N": N, "G": G, "E": E, "W": W, "ring": 3, "counters": [N, 1, 2, 3]}
        for N, G, E, W in [(1, 1, 4, 4), (7, 2, 4, 8), (33, 3, 16, 16), (70, 4, 256, 16), (300, 2, 8, 4)]
    ]
    scalars = {"eps": EPS}
    fills = {
        "rows": few_rows,
        "rates": lambda normal, dims, random: 0.01 + np.abs(normal),
        "squares": lambda normal, dims, random: normal**2,
    }

    def formula(self, *, rows, dy, rates, counters, table, squares, W, ring, **_):
        """The gradient is autograd's, of a lookup."""
        known = table.clone().requires_grad_()
        picked = torch.where((rows < 0)[:, :, None], 0.0, known[rows.clamp(min=0)])
        (picked.reshape(dy.shape) * dy).sum().backward()
        grad = known.grad
        squares = squares + grad.square().mean(dim=1)
        touched = (grad != 0).any(dim=1)
        step = rates[int(counters[0]) % ring] * grad / (squares.sqrt() + EPS)[:, None]
        return {"table": torch.where(touched[:, None], table - step, table), "squares": squares}

    def bound(self, *, rows, dy, rates, counters, table, squares, W, ring, eps, **_):
        size, of_row = np.zeros_like(table), rows.reshape(-1)
        sums, often = np.zeros_like(table), np.bincount(of_row[of_row >= 0], minlength=len(table))[:, None]
        entries = dy.reshape(-1, W)[of_row >= 0]
        np.add.at(sums, of_row[of_row >= 0], entries)
        np.add.at(size, of_row[of_row >= 0], np.abs(entries))
        sum_off = often * U / (1 - often * U) * size
        mean = np.square(sums).mean(axis=1)
        now = squares + mean
        now_off = (2 * np.abs(sums) * sum_off).mean(axis=1) + (gamma(W + 1) + DIVIDE) * mean + U * now
        root = np.sqrt(now) + eps
        relative = now_off / np.maximum(2 * now, 1e-300) + SQRT + DIVIDE + 3 * U
        rate = rates[counters[0] % ring]
        step = rate * np.abs(sums) / root[:, None]
        table_off = step * relative[:, None] + rate * sum_off / root[:, None] + U * (np.abs(table) + step)
        return {"table": np.where(often > 0, table_off, U * np.abs(table)), "squares": now_off}

    def test_rows_of_one_number_step_as_torchs_sparse_adagrad_does(self):
        """AdaGrad by rows is AdaGrad by numbers, where a row has one: here the four of a row are kept equal."""
        random = np.random.default_rng(3)
        E, N, steps = 16, 40, 12
        table, squares = np.tile(random.normal(size=(E, 1)), 4), np.zeros(E)
        weight = torch.tensor(table[:, :1].copy(), requires_grad=True)
        optimizer = torch.optim.Adagrad([weight], lr=1.0, eps=EPS)
        for step in range(steps):
            rows = random.integers(0, E, (N, 1))
            dy = np.tile(random.normal(size=(N, 1)), 4)
            lr = 0.1 / (1 + step)
            optimizer.param_groups[0]["lr"] = lr
            optimizer.zero_grad()
            entries = torch.tensor(rows.reshape(1, -1)), torch.tensor(dy[:, :1].copy())
            weight.grad = torch.sparse_coo_tensor(*entries, size=weight.shape, check_invariants=True)
            optimizer.step()
            call = {"N": N, "G": 1, "E": E, "W": 4, "ring": 1, "eps": EPS, "counters": np.zeros(4, int)}
            SPEC["adagrad_rows"](rows=rows, dy=dy, rates=np.array([lr]), table=table, squares=squares, **call)
        np.testing.assert_allclose(table, np.tile(weight.detach().numpy(), 4), rtol=1e-12)


def test_a_hash_spreads_the_n_grams_of_a_text():
    """Of what is hashed, about as many rows are used as of numbers drawn at random."""
    text = np.frombuffer(b"".join(b"%d is not %d, " % (i, i * i) for i in range(3000)), np.uint8)[None].astype(np.int64)
    E = 4096
    rows = picked_rows(text, E, orders_of(3, 5))[0]
    for g, n in enumerate((3, 5)):
        different = len({bytes(text[0, i - n + 1 : i + 1].tolist()) for i in range(n - 1, text.shape[1])})
        used = len(np.unique(rows[n - 1 :, g]))
        expected = E * (1 - (1 - 1 / E) ** different)
        assert abs(used - expected) < 5 * np.sqrt(expected * (1 - expected / E) + 1), (n, used, expected)


def test_cases_name_rows_more_than_once():
    rows = make_case("adagrad_rows", TestAdagradRows.cases[-1])["rows"]
    assert np.bincount(rows.clip(0).reshape(-1)).max() > 20


@pytest.mark.parametrize("orders, tables", [(0b111100, [2, 3, 4, 5]), (0b10, [1]), (0, [])])
def test_orders_are_bits(orders, tables):
    assert tables_of(orders) == tables
