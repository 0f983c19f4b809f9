"""The loss, fused with its own gradient."""

from tinygpt.core.ops.gpu import GROUP, Dispatch, Target, bound, dims, flag, over_rows, texts
from tinygpt.core.ops.op import Op, declare

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tinygpt.core.ops.gpu import Constant


def cross_entropy(op: Op, target: Target) -> list[Dispatch]:
    constants: dict[str, Constant] = {"SCALE": 1 / op.dim("count"), "HAS_DLOGITS": flag(op.tensor("dlogits"))}
    constants["SMOOTHING"] = op.scalar("smoothing")
    return [over_rows(op, target, "cross_entropy", "logits targets", "losses dlogits", constants, axis="V")]


def mean_loss(op: Op, target: Target) -> list[Dispatch]:
    constants = dims(op, "N accumulate count")
    constants["LANES"] = GROUP
    files = texts("mean_loss", 1, target.device)
    return [Dispatch(files, "mean_loss", bound(op, "losses"), bound(op, "loss"), constants, (1, 1, 1))]


# losses[n] = -sum of goal log softmax(logits[n]), where the goal is 1 at targets[n] and 0 elsewhere;
# dlogits = (softmax - goal) / count. With smoothing, so much of the goal is spread evenly over all.
declare(
    "cross_entropy",
    "logits targets -> losses dlogits? | N V count | smoothing=0",
    "logits=N,V targets:i32=N losses=N dlogits=N,V",
    cross_entropy,
)
# loss[0] (+)= sum(losses) / count, the rows of a whole step
declare("mean_loss", "losses -> loss+ | N accumulate=0 count", "losses=N loss=1", mean_loss)
