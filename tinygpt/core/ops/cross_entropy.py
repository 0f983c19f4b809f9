"""The loss, fused with its own gradient."""

from tinygpt.core.ops.gpu import GROUP, Dispatch, Target, bound, dims, flag, row_grid, row_lanes, texts, width
from tinygpt.core.ops.op import Op, declare


def cross_entropy(op: Op, target: Target) -> list[Dispatch]:
    N, V, wide, device = op.dim("N"), op.dim("V"), width(op.dim("V")), target.device
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


def mean_loss(op: Op, target: Target) -> list[Dispatch]:
    constants = dims(op, "N accumulate count")
    constants["LANES"] = GROUP
    files = texts("mean_loss", 1, target.device)
    return [Dispatch(files, "mean_loss", bound(op, "losses"), bound(op, "loss"), constants, (1, 1, 1))]


# losses[n] = -log softmax(logits[n])[targets[n]];  dlogits = (softmax - onehot) / count
declare(
    "cross_entropy",
    "logits targets -> losses dlogits? | N V count",
    "logits=N,V targets:i32=N losses=N dlogits=N,V",
    cross_entropy,
)
# loss[0] (+)= sum(losses) / count, the rows of a whole step
declare("mean_loss", "losses -> loss+ | N accumulate count", "losses=N loss=1", mean_loss)
