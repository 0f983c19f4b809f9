"""Start values. Their bytes are the same everywhere, which takes float64: a GPU is given them by a CPU."""

from tinygpt.core.errors import TinyGPTError
from tinygpt.core.ops.gpu import Dispatch, Target
from tinygpt.core.ops.op import Op, declare


def not_on_a_gpu(op: Op, target: Target) -> list[Dispatch]:
    raise TinyGPTError("start values are drawn on the CPU; this is a bug")


# y = draws of normal(0, std) from the stream (seed, purpose) of tensor number `index`; std's float64 in two words.
declare("normal", "-> y | P seed purpose index std_high std_low", "y=P", not_on_a_gpu)
declare("constant", "-> y | P | value", "y=P", not_on_a_gpu)
