"""Kernels with an invocation for each entry of what they make."""

import math

import numpy as np

from tinygpt.core.ops.linear import RELU2
from tinygpt.labs.wgsl.lab import KernelLab

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tinygpt.labs.wgsl.lab import Dims

EMBED = KernelLab(
    "embed",
    "Embedding",
    "easy",
    "embed.wgsl",
    ("t = u32(position[n]);", 2, 5),
    "x[n] = wte[tokens[n]], plus wpe[t] with `HAS_WPE`: the token's row of one table and the position's row of "
    "another.\n"
    "Rows have C numbers. `Floats` is one number, or four in a vec4f, as `WIDTH` says, and a row has `words` of "
    "them. `i` is the place of this invocation's Floats in `x`: number `i % words` of row `n`, whose position is "
    "`t`.\n"
    "Tokens are i32, and a place in an array is u32.",
    "  // x[i] = …\n",
    (
        "Row r of a table begins at Floats number `r * words`.",
        "`u32(tokens[n])` is the token as a place.",
        "A vec4f is added as a number is: nothing here depends on WIDTH.",
    ),
    (
        ("+=", "="),
        ("wpe[t * words", "wpe[n * words"),
        ("u32(tokens[n]) * words + i % words", "u32(tokens[n]) * words"),
        ("wte[u32(tokens[n]) * words", "wte[u32(tokens[n]) * C"),
        ("if (HAS_WPE)", "if (!HAS_WPE)"),
        ("t * words + i % words", "t + i % words"),
    ),
    (
        ("embed", {"N": 6, "T": 3, "C": 5, "V": 7, "wte": (7, 5)}),
        ("embed", {"N": 1, "T": 1, "C": 1, "V": 2, "wte": (2, 1), "wpe": None}),
        ("embed", {"N": 10, "T": 5, "C": 100, "V": 9, "wte": (9, 100)}),
    ),
    ("embed", {"N": 1024, "T": 256, "C": 256, "V": 256, "wte": (256, 256)}),
)

ACTIVATION = [{"N": 1, "F": 4, "kind": RELU2}, {"N": 3, "F": 20, "kind": RELU2}, {"N": 9, "F": 132, "kind": RELU2}]

RELU2_LAB = KernelLab(
    "relu2",
    "Squared ReLU and its slope",
    "easy",
    "activation.wgsl",
    ("fn squared_relu(", 1, 2),
    "f(h) = max(h, 0)². The function returns an `Activation(value, slope)`: f(h) and f'(h), of four numbers at a "
    "time.\n"
    "The forward pass stores the value, and the backward pass takes the slope: dx = dy f'(x).",
    "  // return Activation(…, …);\n",
    (
        "`select(a, b, condition)` is b where the condition holds, else a: entry by entry, for vectors.",
        "With p = max(h, 0) the value is p², and the slope 2p. Vectors multiply entry by entry.",
    ),
    (
        ("above * above", "above"),
        ("above + above", "above"),
        ("h < vec4f(0.0)", "h > vec4f(0.0)"),
        ("above + above", "h + h"),
    ),
    tuple([(kernel, dims) for dims in ACTIVATION for kernel in ("activation", "activation_backward")]),
    ("activation_backward", {"N": 1024, "F": 256, "kind": RELU2}),
    {"x": lambda normal, dims, rng: 3 * normal},
    changes={"activation": "relu2"},
)


def far_beyond(normal: "Any", dims: "Dims", rng: "Any") -> "Any":
    """Mostly within the cap, some far beyond it, one so far that exp of it is infinite."""
    x = 6 * normal**3
    x.reshape(-1)[0] = -400.0
    return x


SOFTCAP = KernelLab(
    "softcap",
    "Soft-capped logits, backward",
    "medium",
    "softcap.wgsl",
    ("fn softcap_backward(", 3, 2),
    "The forward pass has y = CAP tanh(x / CAP). Given dy, write dx = dy (1 − tanh²(x / CAP)).\n"
    "WGSL's tanh may be off by 1e-5, and 1 − tanh² cancels where tanh is near 1. With z = x / CAP and e = exp(−2 "
    "|z|) the same factor is 4 e / (1 + e)², which loses nothing.",
    "    // dx[i] = …\n",
    (
        "Put tanh z = (1 − e) / (1 + e) in, and the squares of numerator and denominator differ by 4 e.",
        "The factor is the same for z and −z: take |z|, or exp is infinite for large logits of one sign.",
    ),
    (
        ("4.0 *", "2.0 *"),
        ("x[i] / CAP", "x[i]"),
        ("abs(x[i] / CAP)", "(x[i] / CAP)"),
        ("((1.0 + e) * (1.0 + e))", "(1.0 + e)"),
        ("-2.0 *", "-1.0 *"),
    ),
    (
        ("softcap_backward", {"N": 3, "V": 5}),
        ("softcap_backward", {"N": 1, "V": 1}),
        ("softcap_backward", {"N": 5, "V": 256}),
    ),
    ("softcap_backward", {"N": 1024, "V": 256}),
    {"x": far_beyond},
    {"cap": 3.0},
    changes={"logit_cap": 15.0},
)

SWIGLU = KernelLab(
    "swiglu",
    "SwiGLU, backward",
    "medium",
    "swiglu.wgsl",
    ("fn swiglu_backward(", 6, 3),
    "A row of gate_up has F gates, then F ups; y = g σ(g) up. Given dy, write both gradients of gate_up.\n"
    "`g` is this invocation's gate, its up is `gate_up[at + words]`, and `dgate_up` has the same places.\n"
    "`sigmoid(g)` gives `.value`, which is σ(g), and `.rest`, which is 1 − σ(g) without that difference's "
    "cancellation.",
    "    // dgate_up[at] = …\n    // dgate_up[at + words] = …\n",
    (
        "A product has two factors: the gradient by each is dy times the other one.",
        "σ' = σ (1 − σ).",
        "(g σ)' = σ + g σ (1 − σ).",
    ),
    (
        ("(s.value + g * s.value * s.rest)", "s.value"),
        ("g * s.value * s.rest", "s.value * s.rest"),
        ("dy[i] * (g * s.value)", "dy[i] * s.value"),
        ("dgate_up[at + words]", "dgate_up[at + 1u]"),
        ("dy[i] * gate_up[at + words]", "dy[i]"),
    ),
    (
        ("swiglu_backward", {"N": 3, "F": 5}),
        ("swiglu_backward", {"N": 1, "F": 1}),
        ("swiglu_backward", {"N": 13, "F": 48}),
    ),
    ("swiglu_backward", {"N": 1024, "F": 256}),
    {"gate_up": lambda normal, dims, rng: 3 * normal},
    changes={"activation": "swiglu"},
)


def on_the_circle(normal: "Any", dims: "Dims", rng: "Any") -> "Any":
    angles = 3 * normal[:, : normal.shape[1] // 2]
    return np.hstack([np.cos(angles), np.sin(angles)])


ROTARY = KernelLab(
    "rotary",
    "Rotary positions, there and back",
    "medium",
    "rotary.wgsl",
    ("let row = head / (3u * H) % T", 1, 7),
    "A head's numbers i and i + D/2 are a point (a, b). In queries and keys it is turned by an angle that grows "
    "with the position: y = (a cos − b sin, a sin + b cos). `angles[row]` has the cosine, `angles[row + half]` "
    "the sine.\n"
    "The backward pass is the same kernel with `INVERSE`: a turn's gradient is the turn back. Put the new a at "
    "`y[at]`, and the new b at `y[at + half]`.",
    "    // INVERSE turns by the angle's opposite\n",
    (
        "cos(−φ) = cos φ and sin(−φ) = −sin φ: one sign is all that INVERSE changes.",
        "`var s = …; if (INVERSE) { s = -s; }`",
    ),
    (
        ("s = -s", "s = s"),
        ("a * c - b * s", "a * c + b * s"),
        ("a * s + b * c", "a * s - b * c"),
        ("angles[row + half]", "angles[row + 1u]"),
        ("if (INVERSE)", "if (!INVERSE)"),
    ),
    (
        ("rotary", {"N": 6, "T": 3, "H": 2, "D": 6, "inverse": 0}),
        ("rotary", {"N": 1, "T": 1, "H": 1, "D": 2, "inverse": 1}),
        ("rotary", {"N": 10, "T": 5, "H": 2, "D": 16, "inverse": 1}),
    ),
    ("rotary", {"N": 1024, "T": 256, "H": 4, "D": 32, "inverse": 0}),
    {"angles": on_the_circle},
    changes={"positions": "rotary"},
)

KV_HEADS = KernelLab(
    "kv_heads",
    "Shared heads of keys and values, backward",
    "medium",
    "kv_heads.wgsl",
    ("let at = (i / (heads * words)", 1, 7),
    "H heads of queries share G heads of keys and G of values: the forward pass copies each of those H / G times, "
    "side by side. Its gradient is the sum of the gradients of its copies. A query's head (`head < H`) was not "
    "copied.\n"
    "`dy[at]` is the gradient of the first copy of this invocation's Floats, and the next copy is `words` places "
    "further. The sum is for `dx[i]`.",
    "    // dx[i] = …\n",
    (
        "What was copied was used several times, and every use adds to its gradient.",
        "The copies are at `at`, `at + words`, … up to `at + (H / G - 1u) * words`.",
    ),
    (
        ("copy = 1u", "copy = 0u"),
        ("copy * words", "copy"),
        ("head >= H", "head > H"),
        ("sum += dy", "sum = dy"),
        ("copy < H / G", "copy < G"),
    ),
    (
        ("kv_heads_backward", {"N": 5, "H": 6, "G": 2, "D": 5, "W": 50}),
        ("kv_heads_backward", {"N": 1, "H": 1, "G": 1, "D": 1, "W": 3}),
        ("kv_heads_backward", {"N": 7, "H": 8, "G": 2, "D": 16, "W": 192}),
    ),
    ("kv_heads_backward", {"N": 1024, "H": 8, "G": 2, "D": 32, "W": 384}),
    changes={"d_model": 32, "heads": 4, "kv_heads": 1},
)

NGRAMS = KernelLab(
    "ngrams",
    "Looking up n-grams",
    "medium",
    "ngrams.wgsl",
    ("known = u32(position[i]) + 1u;", 2, 7),
    "Each table has E rows of W floats, and all of them lie one after the other in `table`, as vec4f: a row has "
    "`words`. In table `number` the last `n` bytes up to token `i` pick row `row_of(i, n)`. There are `known` "
    "bytes up to here.\n"
    "Where there are fewer than `n`, `row` is −1 and y zero. Else `row` counts from the first row of the first "
    "table, as an i32, and `y[word]` is the row's vec4f number `word % words`. The backward pass needs `row`: it "
    "is kept below.",
    "  var row = -1;\n  // y[word] = …\n",
    (
        "`var value = vec4f();` is zeros, which stay where too few bytes are known.",
        "Row r of table `number` is row `number * E + r` of all, and begins at vec4f number `row * words`.",
        "`i32(…)` and `u32(…)` convert.",
    ),
    (
        ("known >= n", "known > n"),
        ("number * E + ", ""),
        ("* words + word % words", "* words"),
        ("known >= n", "known + 1u >= n"),
        ("u32(row) * words + word % words", "u32(row) + word % words"),
    ),
    (
        ("ngram_embed", {"N": 14, "T": 7, "G": 2, "E": 256, "W": 4, "orders": 0b110}),
        ("ngram_embed", {"N": 2, "T": 1, "G": 1, "E": 256, "W": 4, "orders": 0b10}),
        ("ngram_embed", {"N": 34, "T": 17, "G": 3, "E": 64, "W": 8, "orders": 0b101100}),
    ),
    ("ngram_embed", {"N": 1024, "T": 256, "G": 4, "E": 4096, "W": 16, "orders": 0b111100}),
    changes={"ngrams": "2,3"},
)


def settings(normal: "Any", dims: "Dims", rng: "Any") -> "Any":
    """The row of this step: its step size, root correction and decay."""
    t = 7
    rates = np.full(normal.shape, 99.0)
    row = dims["counters"][0] % dims["rows"]
    rates[row, 0] = 3e-4 / (1 - 0.9**t)
    rates[row, 1] = 1 / math.sqrt(1 - 0.95**t)
    rates[row, 2] = 3e-5
    return rates


ADAMW = KernelLab(
    "adamw",
    "AdamW's update",
    "medium",
    "adamw.wgsl",
    ("let root_correction = rates[rate + 1u];", 1, 6),
    "m and v are running means of the gradient and of its square: m = β₁ m + (1 − β₁) g, v = β₂ v + (1 − β₂) g². "
    "Then weights = weights kept − step_size m / (√v root_correction + EPS), with the new m and v.\n"
    "`clipped_gradient(i)` is g: the sum of its slices, clipped. `kept(i, decay)` is what weight decay leaves of "
    "weight i, and this step's decay is `rates[rate + 2u]`. `step_size` has the bias correction of m in it, "
    "`root_correction` that of √v.",
    "  let g = clipped_gradient(i);\n  // m[i], v[i], weights[i]\n",
    (
        "The new m is needed twice: `let new_m = …; m[i] = new_m;`",
        "The update divides by √v root_correction + EPS: EPS is added last.",
        "Decay is apart from the gradient (that is the W): `weights[i] * kept(i, rates[rate + 2u]) - …`",
    ),
    (
        ("(1.0 - BETA1) * g", "g"),
        ("(1.0 - BETA2) * g * g", "(1.0 - BETA2) * g"),
        (" * root_correction", ""),
        ("sqrt(new_v) * root_correction + EPS", "sqrt(new_v + EPS) * root_correction"),
        (" * kept(i, rates[rate + 2u])", ""),
        ("  m[i] = new_m;\n", ""),
        ("step_size * new_m", "step_size * m[i] / BETA1"),
    ),
    (
        ("adamw", {"P": 5, "decayed": 3, "rows": 1, "columns": 3, "counters": [0, 1, 2, 3]}),
        ("adamw", {"P": 1027, "decayed": 1000, "rows": 2, "columns": 4, "counters": [13, 1, 2, 3]}),
        ("adamw", {"P": 100, "decayed": 100, "rows": 3, "columns": 3, "counters": [4, 0, 0, 0]}),
    ),
    ("adamw", {"P": 262144, "decayed": 200000, "rows": 1, "columns": 3, "counters": [0, 0, 0, 0]}),
    {
        "norm": lambda normal, dims, rng: np.array([2.5, 0.4]),
        "rates": settings,
        "weights": lambda normal, dims, rng: 0.02 * normal,
        "m": lambda normal, dims, rng: 0.02 * normal,
        "v": lambda normal, dims, rng: 1e-4 * normal**2,
    },
    {"beta1": 0.9, "beta2": 0.95, "eps": 1e-3},
)

LABS = (EMBED, RELU2_LAB, ROTARY, KV_HEADS, SWIGLU, SOFTCAP, NGRAMS, ADAMW)
