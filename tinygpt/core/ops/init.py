"""Start values. Their bytes are the same everywhere, which takes float64: a GPU is given them by a CPU."""

from tinygpt.core.errors import TinyGPTError
from tinygpt.core.ops.gpu import Dispatch, Target
from tinygpt.core.ops.op import Op, declare


def not_on_a_gpu(op: Op, target: Target) -> list[Dispatch]:
    raise TinyGPTError("start values are drawn on the CPU; this is a bug")


# P numbers of y from `start` on: draws of normal(0, std) from the stream (seed, purpose) of tensor number `index`, with
# std's float64 in two words; or one value. (A parameter within a merged tensor need not start where a tensor can.)
declare("normal", "-> y+ | P start seed purpose index std_high std_low", "", not_on_a_gpu)
declare("constant", "-> y+ | P start | value", "", not_on_a_gpu)
