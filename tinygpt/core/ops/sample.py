"""The next byte: temperature, top-k, top-p and a draw, on the device."""

from tinygpt.core.ops.gpu import Dispatch, Target, bound, flag
from tinygpt.core.ops.op import Op, declare

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tinygpt.core.ops.gpu import Constant

# What stands where in `choice`, the settings of a text: its seed, the number of its first draw,
# temperature and top_p as float32 bits, top_k, and a bit for each byte that ends the text.
SEED, FIRST, TEMPERATURE, TOP_P, TOP_K, STOP = 0, 1, 2, 3, 4, 8
CHOICE_WORDS = 16
# And in `cursor`: how many bytes are drawn, and whether the text is over.
WRITTEN, OVER = 0, 1
STOPPED, NO_NUMBER = 1, 2  # values of OVER: a byte ended it; the logits are no numbers


def sample(op: Op, target: Target) -> list[Dispatch]:
    reads, writes = bound(op, "logits choice row"), bound(op, "written token position cursor")
    constants: dict[str, Constant] = {"ROOM": op.dim("room"), "HAS_ROW": flag(op.tensor("row"))}
    return [Dispatch(["philox.wgsl", "sample.wgsl"], "sample", reads, writes, constants, (op.dim("N"), 1, 1))]


# Of the 256 logits in falling order (equal ones by byte) the top_k first and of these as many as reach top_p; among
# them the byte that a draw in [0, 1) falls on. It goes to the ring `written`, is the next token, and position is that
# token's place. So for each of R texts, but for those that are over; or for text number row[0] alone, whose logits
# are then all that is given (N = 1).
declare(
    "sample",
    "logits choice row? -> written+ token+ position+ cursor+ | room N=1 R=1",
    "logits=N,256 choice:i32=R,16 row:i32=1 written:i32=R,room token:i32=R position:i32=R cursor:i32=R,2",
    sample,
)
