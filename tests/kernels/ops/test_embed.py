import numpy as np
import torch
from kernel_tests import KernelTests

from tinygpt.labs import bounds
from tinygpt.labs.rounding import U


class TestEmbed(KernelTests):
    kernel = "embed"
    bound = staticmethod(bounds.embed)
    cases = [{"N": B * T, "T": T, "C": C} for B, T, C in [(1, 1, 1), (3, 1, 5), (2, 17, 48), (1, 33, 100)]]
    cases += [{"N": 34, "T": 17, "C": C, "wpe": None} for C in (5, 48)]
    long_cases = [{"N": 66, "T": 33, "C": 100}]

    def shape(self, name, dims):
        return (256, dims["C"]) if name == "wte" else super().shape(name, dims)

    def formula(self, *, tokens, wte, wpe, T, **_):
        rows = [wte[token] + (0 if wpe is None else wpe[n % T]) for n, token in enumerate(tokens)]
        return {"x": torch.stack(rows)}


class TestEmbedBackward(KernelTests):
    kernel = "embed_backward"
    bound = staticmethod(bounds.embed_backward)
    cases = [
        {"N": B * T, "T": T, "V": 256, "C": C, "accumulate": accumulate, "tied": 1}
        for B, T, C in [(1, 1, 1), (3, 1, 5), (2, 17, 48), (7, 33, 100)]
        for accumulate in (0, 1)
    ]
    cases += [{"N": 65, "T": 13, "V": 2, "C": 3, "accumulate": 1, "tied": 1}]  # few tokens, each many times
    cases += [{"N": 51, "T": 17, "V": 256, "C": 48, "accumulate": accumulate, "tied": 0} for accumulate in (0, 1)]
    cases += [{"N": 51, "T": 17, "V": 100, "C": 5, "accumulate": 0, "tied": tied, "dwpe": None} for tied in (0, 1)]
    # more than a tile and a chunk of rows
    wgsl_cases = [{"N": 1200, "T": 300, "V": 256, "C": 132, "accumulate": 0, "tied": 0}]
    long_cases = [
        {"N": 66, "T": 33, "V": 256, "C": 100, "accumulate": 0, "tied": 1},
        {"N": 66, "T": 33, "V": 256, "C": 100, "accumulate": 0, "tied": 0, "dwpe": None},
    ]
    forward = "embed"
    small_cases = [
        {"N": B * T, "T": T, "V": 256, "C": C, "accumulate": 0, "tied": tied}
        for B, T, C in [(1, 1, 1), (3, 1, 2), (2, 5, 3)]
        for tied in (0, 1)
    ]


class TestEmbedOne(KernelTests):
    kernel = "embed_one"
    cases = [{"C": C, "T": T, "position": p} for C, T, p in [(1, 1, 0), (5, 17, 16), (48, 33, 7)]]
    cases += [{"C": 48, "T": 33, "position": 7, "wpe": None}, {"C": 20, "T": 9, "R": 3, "position": [8, 0, 5]}]

    def shape(self, name, dims):
        return {"wte": (256, dims["C"]), "wpe": (dims["T"], dims["C"])}.get(name) or super().shape(name, dims)

    def formula(self, *, tokens, position, wte, wpe, **_):
        return {"x": wte[tokens] + (0 if wpe is None else wpe[position])}

    def bound(self, *, tokens, position, wte, wpe, x, **_):
        return {"x": np.zeros_like(x) if wpe is None else U * np.abs(wte[tokens] + wpe[position])}
