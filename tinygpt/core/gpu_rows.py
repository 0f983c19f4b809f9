"""Dispatches of the kernels that go over rows or over flat vectors: everything but matmuls and attention."""

from tinygpt.core.gpu_dispatch import SLICE_LINE, Device, Dispatch, bound, ceil_div, flag, line_grid, reduce_files
from tinygpt.core.ops import Op, Tensor, bits_float

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from tinygpt.core.gpu_dispatch import Constant

    Lower = Callable[[Op, int, Device, int], list[Dispatch]]

GROUP = 256  # invocations of a workgroup, in all of these kernels
ROW_LANES = 32  # invocations of a row, at least
NORM_GROUPS = 1024  # at most so many partial sums


def dims(op: Op, names: str) -> "dict[str, Constant]":
    """The op's sizes, and its flags by their names in capitals."""
    return {name.upper(): op.dim(name) for name in names.split()}


def width(*sizes: int) -> int:
    """How many numbers a kernel takes at a time."""
    for size in sizes:
        if size % 4:
            return 1
    return 4


def texts(kernel: str, width: int, device: "Device | None" = None, sliced: bool = False) -> list[str]:
    """A kernel's files; with a device, the reductions that suit it."""
    files = []
    if device is not None:
        files += reduce_files(device)
    files.append(f"width_{width}.wgsl")
    if sliced:
        files.append("slices.wgsl")
    return files + [kernel + ".wgsl"]


def row_lanes(rows: int, words: int, device: Device) -> int:
    """How many invocations share a row: more where rows are too few to keep the device busy, while each has work."""
    lanes = ROW_LANES
    while lanes < GROUP and 2 * lanes <= words and rows * lanes < device.processors * GROUP:
        lanes *= 2
    return lanes


def row_grid(rows: int, lanes: int, device: Device) -> tuple[int, int, int]:
    return line_grid(ceil_div(rows * lanes, GROUP), device)


def flat_grid(count: int, device: Device) -> tuple[int, int, int]:
    """An invocation for each of `count` words."""
    return line_grid(ceil_div(count, GROUP), device)


# --- embeddings ------------------------------------------------------------------------------------------


def embed(op: Op, index: int, device: Device, slices: int) -> list[Dispatch]:
    N, C, wide = op.dim("N"), op.dim("C"), width(op.dim("C"))
    constants = dims(op, "N T C")
    constants["HAS_POSITION"] = 0
    reads = bound(op, "tokens wte wpe") + [("position", None)]
    return [Dispatch(texts("embed", wide), "embed", reads, bound(op, "x"), constants, flat_grid(N * C // wide, device))]


def embed_one(op: Op, index: int, device: Device, slices: int) -> list[Dispatch]:
    C, wide = op.dim("C"), width(op.dim("C"))
    constants: dict[str, Constant] = {"N": 1, "T": 1, "C": C, "HAS_POSITION": 1}
    reads = bound(op, "tokens wte wpe position")
    return [Dispatch(texts("embed", wide), "embed", reads, bound(op, "x"), constants, flat_grid(C // wide, device))]


def embed_backward(op: Op, index: int, device: Device, slices: int) -> list[Dispatch]:
    dwte, wide = op.tensor("dwte"), width(op.dim("C"))
    assert dwte is not None
    constants = dims(op, "N T C accumulate")
    constants["V"] = dwte.shape[0]
    constants["SLICES"] = slices
    words = op.dim("C") // wide
    groups = dwte.shape[0] * ceil_div(words, 32) * slices + ceil_div(op.dim("T") * words * slices, GROUP)
    return [
        Dispatch(
            texts("embed_backward", wide, sliced=True),
            "embed_backward",
            bound(op, "tokens dx"),
            bound(op, "dwte dwpe"),
            constants,
            line_grid(groups, device),
        )
    ]


# --- layer normalisation ---------------------------------------------------------------------------------


def layernorm(op: Op, index: int, device: Device, slices: int) -> list[Dispatch]:
    N, C, wide = op.dim("N"), op.dim("C"), width(op.dim("C"))
    constants = dims(op, "N C")
    constants["EPS"] = bits_float(op.scalars[0])
    constants["LANES"] = lanes = row_lanes(N, C // wide, device)
    return [
        Dispatch(
            texts("layernorm", wide, device),
            "layernorm",
            bound(op, "x gain bias"),
            bound(op, "y mean rstd"),
            constants,
            row_grid(N, lanes, device),
        )
    ]


def layernorm_backward(op: Op, index: int, device: Device, slices: int) -> list[Dispatch]:
    """All tensors at once would be one more than the eight that a kernel may have."""
    N, C, wide = op.dim("N"), op.dim("C"), width(op.dim("C"))
    files = texts("layernorm_backward", wide, device, sliced=True)
    of_rows = dims(op, "N C")
    of_rows["HAS_DRESIDUAL"] = flag(op.tensor("dresidual"))
    of_rows["LANES"] = lanes = row_lanes(N, C // wide, device)
    of_columns = dims(op, "N C accumulate")
    of_columns["SLICES"] = slices
    return [
        Dispatch(
            files,
            "layernorm_backward_rows",
            bound(op, "dy x mean rstd gain dresidual"),
            bound(op, "dx"),
            of_rows,
            row_grid(N, lanes, device),
        ),
        Dispatch(
            files,
            "layernorm_backward_columns",
            bound(op, "dy x mean rstd"),
            bound(op, "dgain dbias"),
            of_columns,
            (ceil_div(C // wide, 4), slices, 1),
        ),
    ]


# --- the loss --------------------------------------------------------------------------------------------


def cross_entropy(op: Op, index: int, device: Device, slices: int) -> list[Dispatch]:
    N, V, wide = op.dim("N"), op.dim("V"), width(op.dim("V"))
    constants = dims(op, "N V")
    constants["SCALE"] = 1 / op.dim("count")
    constants["HAS_DLOGITS"] = flag(op.tensor("dlogits"))
    constants["LANES"] = lanes = row_lanes(N, V // wide, device)
    return [
        Dispatch(
            texts("cross_entropy", wide, device),
            "cross_entropy",
            bound(op, "logits targets"),
            bound(op, "losses dlogits"),
            constants,
            row_grid(N, lanes, device),
        )
    ]


def mean_loss(op: Op, index: int, device: Device, slices: int) -> list[Dispatch]:
    constants = dims(op, "N accumulate count")
    constants["LANES"] = GROUP
    files = texts("mean_loss", 1, device)
    return [Dispatch(files, "mean_loss", bound(op, "losses"), bound(op, "loss"), constants, (1, 1, 1))]


# --- the update ------------------------------------------------------------------------------------------


def norm_groups(P: int) -> int:
    """How many partial sums of squares are taken of P numbers."""
    return min(NORM_GROUPS, ceil_div(P, 16 * GROUP))


def square_sums(
    grads: "Tensor | None", P: int, partials: Tensor, first: int, groups: int, device: Device, slices: int
) -> Dispatch:
    """partials[first : first + groups] add up to the squares of P numbers in slices, padded with zeros to whole lines.

    `grads` may be a part of all gradients; then each part has its own range of the partial sums.
    """
    constants: dict[str, Constant] = {"P": P, "FIRST": first, "SLICES": slices, "LANES": GROUP}
    return Dispatch(
        texts("grad_norm", width(SLICE_LINE), device, sliced=True),
        "square_sums",
        [("grads", grads)],
        [("partials", partials)],
        constants,
        (groups, 1, 1),
    )


def clip(partials: Tensor, count: int, norm: "Tensor | None", limit: float, device: Device) -> Dispatch:
    """norm[0], the root of the partial sums' sum, and norm[1], the factor that brings it down to `limit`."""
    constants: dict[str, Constant] = {"COUNT": count, "LIMIT": limit, "LANES": GROUP}
    files = texts("grad_norm", width(SLICE_LINE), device, sliced=True)
    return Dispatch(files, "clip", [("all_partials", partials)], [("norm", norm)], constants, (1, 1, 1))


def grad_norm(op: Op, index: int, device: Device, slices: int) -> list[Dispatch]:
    P = op.dim("P")
    groups = norm_groups(P)
    partials = Tensor(f"partials.{index}", (groups,))
    return [
        square_sums(op.tensor("grads"), P, partials, 0, groups, device, slices),
        clip(partials, groups, op.tensor("norm"), bits_float(op.scalars[0]), device),
    ]


def adamw(op: Op, index: int, device: Device, slices: int) -> list[Dispatch]:
    P = op.dim("P")
    wide = width(P, op.dim("decayed"))
    constants = dims(op, "P decayed")
    constants["SLICES"] = slices
    for name, bits in zip(("BETA1", "BETA2", "EPS"), op.scalars):  # noqa: B905
        constants[name] = bits_float(bits)
    return [
        Dispatch(
            texts("adamw", wide, sliced=True),
            "adamw",
            bound(op, "grads norm rates"),
            bound(op, "weights m v"),
            constants,
            flat_grid(P // wide, device),
        )
    ]


# --- generation ------------------------------------------------------------------------------------------


def cache_fill(op: Op, index: int, device: Device, slices: int) -> list[Dispatch]:
    T, C, wide = op.dim("T"), op.dim("C"), width(op.dim("C"))
    return [
        Dispatch(
            texts("cache_fill", wide),
            "cache_fill",
            bound(op, "qkv"),
            bound(op, "cache_k cache_v"),
            dims(op, "T C"),
            flat_grid(T * C // wide, device),
        )
    ]


def attention_one(op: Op, index: int, device: Device, slices: int) -> list[Dispatch]:
    H, D, wide = op.dim("H"), op.dim("D"), width(op.dim("D"))
    constants = dims(op, "H D")
    constants["LANES"] = GROUP
    return [
        Dispatch(
            texts("attention_one", wide, device),
            "attention_one",
            bound(op, "qkv position"),
            bound(op, "y cache_k cache_v"),
            constants,
            (H * ceil_div(D // wide, 8), 1, 1),
        )
    ]


def pick_row(op: Op, index: int, device: Device, slices: int) -> list[Dispatch]:
    grid = flat_grid(op.dim("C"), device)
    return [Dispatch(["pick_row.wgsl"], "pick_row", bound(op, "x position"), bound(op, "y"), dims(op, "C"), grid)]


ROWS_KERNELS: "dict[str, Lower]" = {
    "embed": embed,
    "embed_backward": embed_backward,
    "layernorm": layernorm,
    "layernorm_backward": layernorm_backward,
    "cross_entropy": cross_entropy,
    "mean_loss": mean_loss,
    "grad_norm": grad_norm,
    "adamw": adamw,
    "embed_one": embed_one,
    "cache_fill": cache_fill,
    "attention_one": attention_one,
    "pick_row": pick_row,
}
