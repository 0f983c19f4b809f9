"""Causal attention, in the FlashAttention-2 manner: no T×T matrix is stored, but for who asks for it.
And its KV cache."""

from tinygpt.core.errors import TinyGPTError
from tinygpt.core.ops.gpu import (
    GROUP,
    Device,
    Dispatch,
    Target,
    bound,
    ceil_div,
    dims,
    flag,
    flat_grid,
    line_grid,
    texts,
)
from tinygpt.core.ops.gpu import width as word_width
from tinygpt.core.ops.op import Op, declare, shared

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tinygpt.core.ops.gpu import Constant

    Constants = dict[str, Constant]

BLOCK = shared("BLOCK", 64)  # queries, and keys, that the CPU takes at a time
# Of the CPU's scratch: more threads than that, or than pieces of work, have nothing to do.
SCRATCH_SLICES = shared("SCRATCH_SLICES", 64)
SCORES = shared("SCORES", 16)  # of one query, of which room is taken for a multiple: the widest vector

MAX_SHARES = 4  # quads of floats that an invocation can have of each row
PLAIN_LANES = 64

# How a workgroup computes a tile of scores, best first: (ACROSS, DOWN) as in attention_tile.wgsl, invocations with 4
# rows and 4 columns each. The order is that measured on an H200 at D = 32. The last ones leave lanes of a subgroup
# idle; they are for devices whose workgroup memory is too small for others.
SMALL_TILES = [(8, 4), (4, 8), (4, 4), (4, 2), (4, 1)]
FORWARD_TILES = [(8, 8)] + SMALL_TILES
BACKWARD_TILES = [(8, 16), (8, 8)] + SMALL_TILES


def attention_tiles(op: Op, device: Device) -> "tuple[int, int] | None":
    """The first tile that the device can hold, or None: workgroup memory bounds it (a tile's size grows with D), and
    every row of vectors must be covered by the invocations across."""
    for tile in BACKWARD_TILES if op.kernel == "attention_backward" else FORWARD_TILES:
        if fits(op, tile, device):
            return tile
    return None


def tile_rows(tile: tuple[int, int]) -> int:
    return 4 * tile[1]


def fits(op: Op, tile: tuple[int, int], device: Device) -> bool:
    across, down = tile
    quads = op.dim("D") // 4
    if op.dim("D") % 4 != 0 or across > max(quads, 4) or ceil_div(quads, across) > MAX_SHARES:
        return False
    return across * down <= device.max_invocations and workgroup_bytes(op, tile) <= device.max_shared


def workgroup_bytes(op: Op, tile: tuple[int, int]) -> int:
    """What the arrays of attention.wgsl, or of attention_backward.wgsl, take of workgroup memory."""
    across, down = tile
    rows, columns, stride, score_stride = tile_rows(tile), 4 * across, op.dim("D") // 4 | 1, across | 1
    if op.kernel == "attention_backward":
        vectors = 2 * (rows + columns) * stride
        return 16 * (vectors + 2 * rows * score_stride) + 4 * max(rows, columns) * (stride + 1)
    scratch = max(columns * stride, rows * score_stride)
    return 16 * ((rows + columns) * stride + scratch + down * score_stride)


def attention(op: Op, target: Target) -> list[Dispatch]:
    constants = sizes(op)
    constants["HAS_LSE"] = flag(op.tensor("lse"))
    return dispatch_tiles(op, target.device, "qkv", "y lse", constants, 1)


def attention_backward(op: Op, target: Target) -> list[Dispatch]:
    return dispatch_tiles(op, target.device, "dy qkv y lse", "dqkv", sizes(op), 2)


def sizes(op: Op) -> "Constants":
    return dims(op, "B T H D alibi")


def dispatch_tiles(
    op: Op, device: Device, reads: str, writes: str, constants: "Constants", roles: int
) -> list[Dispatch]:
    """One dispatch: a workgroup for each role of each tile of rows of each head; of each row where no tile fits."""
    tile = attention_tiles(op, device)
    if tile is None:
        files = [op.kernel + "_plain.wgsl"]
        tiles = op.dim("T")
        constants["LANES"] = lanes = min(PLAIN_LANES, device.max_invocations)
        if 4 * 2 * (lanes + op.dim("D")) > device.max_shared:
            raise TinyGPTError(
                f"attention with {op.dim('D')} numbers per head takes more workgroup memory than this GPU has; "
                f"use more heads, or another engine"
            )
    else:
        files = ["attention_tile.wgsl", op.kernel + ".wgsl"]
        constants["ACROSS"], constants["DOWN"] = tile
        constants["SHARES"] = ceil_div(op.dim("D") // 4, tile[0])
        tiles = ceil_div(op.dim("T"), tile_rows(tile))
    grid = line_grid(roles * op.dim("B") * op.dim("H") * tiles, device)
    return [Dispatch(files, op.kernel, bound(op, reads), bound(op, writes), constants, grid)]


def attention_weights(op: Op, target: Target) -> list[Dispatch]:
    grid = flat_grid(op.dim("B") * op.dim("H") * op.dim("T") ** 2, target.device)
    files, kernel = ["attention_weights.wgsl"], "attention_weights"
    return [Dispatch(files, kernel, bound(op, "qkv lse"), bound(op, "p"), sizes(op), grid)]


def cache_fill(op: Op, target: Target) -> list[Dispatch]:
    N, C, wide = op.dim("N"), op.dim("C"), word_width(op.dim("C"))
    return [
        Dispatch(
            texts("cache_fill", wide),
            "cache_fill",
            bound(op, "qkv row"),
            bound(op, "cache_k cache_v"),
            dims(op, "N T C"),
            flat_grid(N * C // wide, target.device),
        )
    ]


def attention_one(op: Op, target: Target) -> list[Dispatch]:
    H, D, wide = op.dim("H"), op.dim("D"), word_width(op.dim("D"))
    constants = dims(op, "T H D alibi")
    constants["LANES"] = GROUP
    return [
        Dispatch(
            texts("attention_one", wide, target.device),
            "attention_one",
            bound(op, "qkv position"),
            bound(op, "y cache_k cache_v"),
            constants,
            (H * ceil_div(D // wide, 8), op.dim("R"), 1),
        )
    ]


# --- what it costs a CPU ---------------------------------------------------------------------------------


def causal_flops(op: Op, matmuls: int) -> int:
    pairs = op.dim("T") * (op.dim("T") + 1) // 2
    return 2 * matmuls * op.dim("B") * op.dim("H") * op.dim("D") * pairs


def forward_scratch(op: Op) -> int:
    pieces = op.dim("B") * op.dim("H") * ceil_div(op.dim("T"), BLOCK)
    return min(SCRATCH_SLICES, pieces) * BLOCK * (3 * op.dim("D") + BLOCK)


def backward_scratch(op: Op) -> int:
    pieces = op.dim("B") * op.dim("H")
    return min(SCRATCH_SLICES, pieces) * BLOCK * (4 * op.dim("D") + 2 * BLOCK)


# qkv is [N, 3C]: q, k, v side by side, each H heads of D. lse[B,H,T] is each row's log-sum-exp. With `alibi`, head h
# has its scores lowered by 2^(-8 (h + 1) / H) per row that a key lies behind its query.
declare(
    "attention",
    "qkv -> y lse? | B T H D alibi=0",
    "qkv=B*T,3*H*D y=B*T,H*D lse=B,H,T",
    attention,
    flops=lambda op: causal_flops(op, 2),  # S, PV
    scratch=forward_scratch,
)
declare(
    "attention_backward",
    "dy qkv y lse -> dqkv | B T H D alibi=0",
    "dy=B*T,H*D qkv=B*T,3*H*D y=B*T,H*D lse=B,H,T dqkv=B*T,3*H*D",
    attention_backward,
    flops=lambda op: causal_flops(op, 5),  # again S, then dP, dV, dQ, dK
    scratch=backward_scratch,
)
# The T×T matrices that attention never stores, for whoever looks at them: p_ij = exp(s_ij - lse_i), 0 where j > i.
declare(
    "attention_weights",
    "qkv lse -> p | B T H D alibi=0",
    "qkv=B*T,3*H*D lse=B,H,T p=B,H,T,T",
    attention_weights,
    flops=lambda op: causal_flops(op, 1),
)
# Generation, R texts: each has T rows of cache_k and cache_v; position[r] is the place of its newest token in it.
# cache_fill is for the first N places of text number row[0] alone.
declare(
    "cache_fill",
    "qkv row -> cache_k+ cache_v+ | N T C R=1",
    "qkv=N,3*C row:i32=1 cache_k=R*T,C cache_v=R*T,C",
    cache_fill,
)
declare(
    "attention_one",
    "qkv position -> y cache_k+ cache_v+ | T H D alibi=0 R=1",
    "qkv=R,3*H*D position:i32=R y=R,H*D cache_k=R*T,H*D cache_v=R*T,H*D",
    attention_one,
    scratch=lambda op: op.dim("R") * op.dim("H") * ceil_div(op.dim("T"), SCORES) * SCORES,
    flops=lambda op: 4 * op.dim("R") * op.dim("T") * op.dim("H") * op.dim("D"),
)
