"""What a step reads: windows of the corpus, drawn on the device."""

from tinygpt.core.ops.gpu import Dispatch, Target, bound, dims, flat_grid
from tinygpt.core.ops.op import Op, declare


def draw_windows(op: Op, target: Target) -> list[Dispatch]:
    constants = dims(op, "B T bytes seed purpose parts")
    grid = flat_grid(op.dim("B") * op.dim("T"), target.device)
    files = ["philox.wgsl", "hash.wgsl", "windows.wgsl"]
    return [Dispatch(files, "draw_windows", bound(op, "corpus counters"), bound(op, "tokens targets"), constants, grid)]


# Row b of the batch is a window of T + 1 bytes that starts where core/rng.py's window_offsets says:
# tokens[b] = its first T, targets[b] = its last T.
# counters: steps done, batches of the step done, batches of the validation done.
# `purpose` BATCH draws for the step under way, EVAL the same windows for every validation. With `parts`, the number of
# batches in a step, windows are not drawn one by one, but all of the text in a random order (`shuffled_offsets`).
declare(
    "draw_windows",
    "corpus counters -> tokens targets | B T bytes seed purpose parts=0",
    "corpus:u8=bytes counters:i32=4 tokens:i32=B*T targets:i32=B*T",
    draw_windows,
)
