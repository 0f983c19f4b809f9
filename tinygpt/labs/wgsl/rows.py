"""Kernels in which some invocations share a row, and what sums over rows."""

import numpy as np

from tinygpt.labs.wgsl.lab import KernelLab, about_one, one_per_row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tinygpt.labs.wgsl.lab import Dims, Fill, Given

EPS = 1e-5
FILLS: "dict[str, Fill]" = {"x": one_per_row, "gain": about_one}


def small(normal: "Any", dims: "Dims", rng: "Any") -> "Any":
    """So small that EPS counts."""
    return 0.02 * normal


RMSNORM = KernelLab(
    "rmsnorm",
    "RMSNorm",
    "easy",
    "rmsnorm.wgsl",
    ("squares += x[first + i] * x[first + i];", 2, 1),
    "Each row of x [N, C] is divided by its root mean square: y = x · scale · gain, with scale = 1 / √(mean(x²) + "
    "EPS).\n"
    "`LANES` invocations share a row. Each has added up the squares of its own Floats in `squares`: "
    "`sum_of(squares)` is the sum of those, and `row_sum(value, me, group)` adds up a value over all lanes of the "
    "row. Every lane gets that sum.",
    "  let scale = 1.0;  // yours\n",
    (
        "`inverseSqrt(v)` is 1 / √v.",
        "A row has C numbers, however many invocations share it; `f32(C)` makes a float of it.",
        "EPS is added to the mean, under the root.",
    ),
    (
        (" / f32(C)", ""),
        (" + EPS", ""),
        ("row_sum(sum_of(squares), me, group)", "sum_of(squares)"),
        ("inverseSqrt(", "sqrt("),
        ("f32(C)", "f32(LANES)"),
    ),
    (
        ("rmsnorm", {"N": 3, "C": 5}),
        ("rmsnorm", {"N": 1, "C": 48}),
        ("rmsnorm", {"N": 13, "C": 100}),
        ("rmsnorm", {"N": 3, "C": 257}),
    ),
    ("rmsnorm", {"N": 1024, "C": 256}),
    {"x": small, "gain": about_one},
    {"eps": EPS},
    changes={"norm": "rmsnorm"},
)


def with_rstd(given: "Given") -> None:
    given["rstd"] = 1 / np.sqrt(np.square(given["x"]).mean(axis=1) + EPS)


RMSNORM_BACKWARD = KernelLab(
    "rmsnorm-backward",
    "RMSNorm, backward",
    "medium",
    "rmsnorm_backward.wgsl",
    ("let dn_n_mean = row_sum(", 7, 5),
    "The forward pass has n = x · scale and y = n · gain, with scale = 1 / √(mean(x²) + ε) of the row. With dn = "
    "dy · gain, dx = scale (dn − n mean(dn n)), plus dresidual where `HAS_DRESIDUAL`: the gradient that came past "
    "the norm.\n"
    "`dn_n_mean` is that mean, of the whole row. `dy`, `x`, `dresidual` and `dx` have this invocation's Floats at "
    "`first + i`, and `gain` at `i`.",
    "    // dx[first + i] = …\n",
    (
        "x_i reaches every y of its row: through its own n_i, and through scale. The second way is the mean.",
        "n is not stored: it is `x[first + i] * scale`.",
        "`var d = …; if (HAS_DRESIDUAL) { d += …; }` An absent tensor must not be read.",
    ),
    (
        (" - x[first + i] * scale * dn_n_mean", ""),
        ("x[first + i] * scale * dn_n_mean", "x[first + i] * dn_n_mean"),
        ("d += dresidual", "d = dresidual"),
        (" * gain[i] - x", " - x"),
        ("scale * (dy", "(dy"),
        ("if (HAS_DRESIDUAL)", "if (!HAS_DRESIDUAL)"),
    ),
    (
        ("rmsnorm_backward", {"N": 3, "C": 5, "accumulate": 0}),
        ("rmsnorm_backward", {"N": 2, "C": 48, "accumulate": 0, "dresidual": None}),
        ("rmsnorm_backward", {"N": 13, "C": 100, "accumulate": 1}),
    ),
    ("rmsnorm_backward", {"N": 1024, "C": 256, "accumulate": 0}),
    FILLS,
    settle=with_rstd,
    changes={"norm": "rmsnorm"},
)

TREE = KernelLab(
    "tree",
    "A sum by 64 invocations",
    "hard",
    "rmsnorm_backward.wgsl",
    ("dgain_part += dy[row * words + column]", 2, 8),
    "dgain is a sum over all rows. 256 invocations have 4 columns, `me % 4`, and 64 shares of the rows, `me / 4`: "
    "each has added up its share in `dgain_part`. Put it in `dgain_parts[me]`, which the workgroup sees, and add "
    "up the 64 shares of each column there, so that the sums end in `dgain_parts[0]` to `[3]`.\n"
    "Halve: the first 128 take what is 128 further, the first 64 what is 64 further, … the first 4 what is 4 "
    "further.\n"
    "`workgroupBarrier()` waits until all 256 are there: what one wrote before it, another may read after it.",
    "  dgain_parts[me % 256u] = dgain_part;\n",
    (
        "From 256 down to 4 takes six halvings, with `128u >> halving` apart.",
        "Every turn reads what other invocations wrote in the turn before: a barrier comes first in every turn.",
        "A barrier must be reached by all invocations: it comes before the if, not in it.",
        "Places are taken `% 256u`, which changes nothing: it shows the compiler that they are within the array.",
    ),
    (
        ("    workgroupBarrier();\n", ""),
        ("] += dgain_parts", "] = dgain_parts"),
        ("halving < 6u", "halving < 5u"),
        ("halving < 6u", "halving < 7u"),
        ("128u >> halving", "64u >> halving"),
        ("(me + apart)", "(me + 1u)"),
    ),
    (
        ("rmsnorm_backward", {"N": 129, "C": 5, "accumulate": 1}),
        ("rmsnorm_backward", {"N": 3, "C": 3, "accumulate": 0}),
        ("rmsnorm_backward", {"N": 70, "C": 20, "accumulate": 0}),
        ("rmsnorm_backward", {"N": 70, "C": 500, "accumulate": 0}),
    ),
    ("rmsnorm_backward", {"N": 1024, "C": 256, "accumulate": 0}),
    FILLS,
    settle=with_rstd,
    changes={"norm": "rmsnorm"},
    has_barriers=True,
)


def with_stats(given: "Given") -> None:
    x = given["x"]
    given["stats"] = np.stack([x.mean(axis=1), 1 / np.sqrt(x.var(axis=1) + EPS)], axis=1)


LAYERNORM = KernelLab(
    "layernorm",
    "LayerNorm's two means, backward",
    "medium",
    "layernorm_backward.wgsl",
    ("var dn_n_sum = Floats();", 7, 5),
    "With n = (x − center) scale and dn = dy · gain: dx = scale (dn − mean(dn) − n mean(dn n)). The means are "
    "over a row, which `LANES` invocations share. Each goes over its own Floats of the row, and `dn` of those is "
    "there. Finish that loop, and make `dn_mean` and `dn_n_mean` of what all lanes found.",
    "    // what each of its words adds to dn_sum and dn_n_sum\n  }\n  let dn_mean = 0.0;  // yours\n"
    "  let dn_n_mean = 0.0;  // yours\n",
    (
        "n is not stored: it is `(x[first + i] - center) * scale`.",
        "`sum_of(…)` adds up the numbers of one Floats; `row_sum(value, me, group)` adds up over the lanes.",
        "`row_sum` has barriers in it, so it comes after the loop: all invocations must call it.",
    ),
    (
        ("dn_sum += dn;", "dn_sum = dn;"),
        (" - center", ""),
        ("- center) * scale)", "- center))"),
        ("row_sum(sum_of(dn_sum), me, group)", "sum_of(dn_sum)"),
        ("sum_of(dn_n_sum), me, group) / f32(C)", "sum_of(dn_n_sum), me, group)"),
    ),
    (
        ("layernorm_backward", {"N": 3, "C": 5, "accumulate": 0}),
        ("layernorm_backward", {"N": 2, "C": 257, "accumulate": 0, "dresidual": None}),
        ("layernorm_backward", {"N": 13, "C": 100, "accumulate": 1}),
    ),
    ("layernorm_backward", {"N": 1024, "C": 256, "accumulate": 0}),
    FILLS,
    settle=with_stats,
)


def one_row_high(normal: "Any", dims: "Dims", rng: "Any") -> "Any":
    logits = 4 * normal
    logits[0] = logits[0] + 200.0  # exp would be infinite
    return logits


CROSS_ENTROPY = KernelLab(
    "cross-entropy",
    "Softmax and cross-entropy, backward",
    "medium",
    "cross_entropy.wgsl",
    ("if (HAS_DLOGITS) {", 6, 5),
    "The loss of a row is −log softmax(logits)[goal]. Its gradient is softmax(logits) − wanted, where wanted is 1 "
    "at the goal and 0 elsewhere, times `SCALE`, which is 1 over the number of rows.\n"
    "`top` is the row's largest logit, and `sum` the sum of exp(logit − top). `one_at(place)` is a Floats with 1 "
    "at that place, and all zeros where the place is outside of it (also where u32 goes below 0).\n"
    "With `SMOOTHING` s, wanted is (1 − s) of that plus s / V everywhere.",
    "      // dlogits[first + i] = …\n",
    (
        "Floats number `i` has the logits from `i * WIDTH` on, so the goal is at place `goal - i * WIDTH` of it.",
        "softmax is exp(logit − top) / sum. Without − top, exp of large logits is infinite.",
    ),
    (
        (" / sum", ""),
        (" * SCALE", ""),
        (" - wanted", ""),
        ("(1.0 - SMOOTHING)", "1.0"),
        ("goal - i * WIDTH", "goal - i"),
        (" - top", ""),
    ),
    (
        ("cross_entropy", {"N": 3, "V": 5, "count": 9}),
        ("cross_entropy", {"N": 2, "V": 256, "count": 3}),
        ("cross_entropy", {"N": 9, "V": 100, "count": 9, "smoothing": 0.1}),
    ),
    ("cross_entropy", {"N": 1024, "V": 256, "count": 1024}),
    {"logits": one_row_high},
)

CLIP = KernelLab(
    "clip",
    "Clipping the gradient",
    "easy",
    "grad_norm.wgsl",
    ("let length = sqrt(row_sum(part, me, group));", 2, 4),
    "`length` is the norm of all gradients together. Where it is above `LIMIT`, `factor` brings it down to "
    "`LIMIT`; else `factor` is 1. As in PyTorch, `CLIP_EPS` is added to the length before both. A `LIMIT` of 0 "
    "means that nothing is clipped.",
    "    var factor = 1.0;\n",
    (
        "Everything times LIMIT / length has the length LIMIT.",
        "Two conditions, and both must hold: `LIMIT > 0.0 && LIMIT < length + CLIP_EPS`.",
    ),
    (
        ("LIMIT > 0.0 && ", ""),
        ("LIMIT / (length + CLIP_EPS)", "(length + CLIP_EPS) / LIMIT"),
        ("LIMIT < length + CLIP_EPS", "length < LIMIT"),
        ("LIMIT / (length + CLIP_EPS)", "LIMIT / length"),
        (" && LIMIT < length + CLIP_EPS", ""),
    ),
    (
        ("grad_norm", {"P": 5, "limit": 1e-4}),
        ("grad_norm", {"P": 100, "limit": 0.0}),
        ("grad_norm", {"P": 1027, "limit": 1000.0}),
        ("grad_norm", {"P": 64, "limit": 1.0}),
    ),
    ("grad_norm", {"P": 262144, "limit": 1.0}),
    {"grads": lambda normal, dims, rng: normal * (1e-3 if dims["P"] == 5 else 1)},
)

LABS = (RMSNORM, CLIP, RMSNORM_BACKWARD, LAYERNORM, CROSS_ENTROPY, TREE)
