"""Kernels that multiply, gather and attend: a workgroup shares what it has read."""

import math

import numpy as np

from tinygpt.kernels.spec import SPEC
from tinygpt.labs.wgsl.lab import KernelLab

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tinygpt.labs.wgsl.lab import Dims, Given

ODD = {"d_model": 30, "heads": 3}  # widths that the faster kernels do not take


def by_width(normal: "Any", dims: "Dims", rng: "Any") -> "Any":
    return normal / math.sqrt(normal.shape[1])


MATMUL = KernelLab(
    "matmul",
    "A matrix product's tile",
    "medium",
    "linear_any.wgsl",
    ("fn multiply(at: vec3u, sum: f32) -> f32 {", 1, 5),
    "y = x weightᵀ, in tiles of 16 × 16: the invocation at `(at.x, at.y)` makes one number of y, in row `at.y` "
    "and column `at.x` of its tile. For every 16 steps of depth its workgroup fills `left_tile[row][depth]` and "
    "`right_tile[depth][column]`, an entry each, and then calls `multiply(at, sum)`: it returns `sum` plus the 16 "
    "products that this number has there.\n"
    "`workgroupBarrier()` waits until all 256 invocations are there.",
    "  return sum;\n",
    (
        "The number is a row of the left tile times a column of the right one.",
        "Others have written what is read here, so a barrier comes before the loop.",
        "After it the caller fills the tiles anew: nobody may do so while another still reads. So a barrier comes "
        "after it.",
    ),
    (
        ("  workgroupBarrier();\n  var", "  var"),
        ("  workgroupBarrier();\n  return", "  return"),
        ("k < TILE", "k < TILE - 1u"),
        ("right_tile[k][at.x]", "right_tile[at.x][k]"),
        ("total +=", "total ="),
        ("var total = sum", "var total = 0.0"),
    ),
    (
        ("linear", {"N": 17, "O": 19, "I": 23, "bias": None, "residual": None}),
        ("linear", {"N": 16, "O": 1, "I": 5}),
        ("linear", {"N": 33, "O": 18, "I": 35, "accumulate": 1, "residual": None}),
    ),
    ("linear", {"N": 256, "O": 255, "I": 255, "bias": None, "residual": None}),
    {"weight": by_width},
    changes=ODD,
    has_barriers=True,
)

EMBED_BACKWARD = KernelLab(
    "embed-backward",
    "The embedding's gradient",
    "hard",
    "embed_backward.wgsl",
    ("if (rows == 0u || column >= words) {", 3, 3),
    "dwte[v] is the sum of dx[n] over all tokens n that are v. A workgroup has one v, and takes 256 tokens at a "
    "time: bit b of `found[row_lane]` says that token `first + 32 row_lane + b` is v. `rows` is that word of "
    "bits, and this loop goes over those that are set: add the Floats of dx of the token of the lowest one to "
    "`sum`, at this invocation's `column`, and clear that bit. dx has `words` Floats per token.",
    "      // sum += …\n      // rows = …\n",
    (
        "`firstTrailingBit(rows)` is the number of the lowest bit that is set.",
        "`rows & (rows - 1u)` is `rows` without its lowest bit.",
    ),
    (
        ("sum +=", "sum ="),
        (" + row_lane * 32u", ""),
        ("let n = first + row_lane", "let n = row_lane"),
        ("      rows &= rows - 1u;\n", ""),
        ("rows - 1u", "rows - 2u"),
        ("n * words + column", "n * words"),
    ),
    (
        ("embed_backward", {"N": 65, "T": 13, "V": 2, "C": 3, "accumulate": 1, "tied": 1}),
        ("embed_backward", {"N": 300, "T": 100, "V": 7, "C": 5, "accumulate": 0, "tied": 0, "dwpe": None}),
        ("embed_backward", {"N": 51, "T": 17, "V": 9, "C": 48, "accumulate": 0, "tied": 0}),
    ),
    ("embed_backward", {"N": 1024, "T": 256, "V": 256, "C": 64, "accumulate": 0, "tied": 0}),
)


def attended(given: "Given") -> None:
    names = ("qkv", "y", "lse", "B", "T", "H", "D", "alibi")
    SPEC["attention"](**{name: given[name] for name in names})


def late_and_large(normal: "Any", dims: "Dims", rng: "Any") -> "Any":
    """Queries point one way, and keys beyond the first 64 go far along it: the largest score comes late."""
    C = dims["H"] * dims["D"]
    normal[:, :C] = np.abs(normal[:, :C])
    for row in range(normal.shape[0]):
        if row % dims["T"] >= 64:
            normal[row, C : 2 * C] = normal[row, C : 2 * C] + 3.0
    return normal


ATTENTION = KernelLab(
    "attention",
    "Attention with an online softmax",
    "hard",
    "attention_plain.wgsl",
    ("weights[lane] = exp(score - top);", 2, 6),
    "y = Σ exp(s_j) v_j / Σ exp(s_j) over the keys j up to the query, `LANES` of them at a time, and only their "
    "largest score so far is subtracted. `largest` was that up to now, and with these keys it is `top`; "
    "`weights[i]` is exp(s_i − top) for those that are here, `count` of them.\n"
    "`out[d]` and `sum` hold what came before, weighted by exp(s − largest): both must shrink. The lines below "
    "multiply `out[d]` by `shrink`, which you make. `sum` and `largest` are yours to bring up to date.",
    "    let shrink = 1.0;  // yours\n",
    (
        "exp(s − top) = exp(s − largest) · exp(largest − top).",
        "The first time `largest` is −1e30, and exp of what is left is 0: nothing came before.",
        "`sum` is the denominator: what came before, shrunk, plus the weights of these keys.",
    ),
    (
        ("exp(largest - top)", "1.0"),
        ("    sum *= shrink;\n", ""),
        ("    largest = top;\n", ""),
        ("sum += weights[i]", "sum += scores[i]"),
        ("exp(largest - top)", "exp(top - largest)"),
        ("var i = 0u", "var i = 1u"),
    ),
    (
        ("attention", {"B": 1, "T": 70, "H": 1, "D": 5}),
        ("attention", {"B": 2, "T": 1, "H": 3, "D": 5}),
        ("attention", {"B": 2, "T": 9, "H": 2, "D": 3}),
    ),
    ("attention", {"B": 4, "T": 64, "H": 4, "D": 10}),
    {"qkv": late_and_large},
    changes=ODD,
)

ATTENTION_BACKWARD = KernelLab(
    "attention-backward",
    "Attention, backward",
    "hard",
    "attention_backward_plain.wgsl",
    ("let key = select(first + lane, own, of_keys);", 1, 3),
    "With s the scores and P = softmax(s), y = P v. Then dv = Pᵀ dy, and through the softmax ds = P (dp − delta), "
    "with dp = dy · v and delta = dy · y. The forward pass kept `lse`, the logarithm of each query's sum of "
    "exp(s), so P can be made again without a sum.\n"
    "`score(head, query, key)` is s, `dp_less_delta(head, query, key)` is dp − delta, and `lse[head * T + query]` "
    "that query's. Put P in `p_tile[lane]` and ds in `ds_tile[lane]`: the lines below sum over them.",
    "      // p_tile[lane] = …\n      // ds_tile[lane] = …\n",
    (
        "P = exp(s) / exp(lse): one exp of a difference.",
        "The division by √D of the scores' gradient is done at the end, below.",
    ),
    (
        (" - lse[head * T + query]", ""),
        ("lse[head * T + query]", "lse[head * T + key]"),
        ("p * dp_less_delta", "dp_less_delta"),
        ("p_tile[lane] = p", "p_tile[lane] = 1.0"),
        ("dp_less_delta(head, query, key)", "dp_less_delta(head, key, query)"),
    ),
    (
        ("attention_backward", {"B": 2, "T": 9, "H": 2, "D": 3}),
        ("attention_backward", {"B": 2, "T": 1, "H": 2, "D": 5}),
        ("attention_backward", {"B": 1, "T": 66, "H": 1, "D": 2}),
    ),
    ("attention_backward", {"B": 2, "T": 64, "H": 4, "D": 10}),
    settle=attended,
    changes=ODD,
)

LABS = (MATMUL, EMBED_BACKWARD, ATTENTION, ATTENTION_BACKWARD)
