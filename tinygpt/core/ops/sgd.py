"""Stochastic gradient descent with momentum over the flat vector of all parameters."""

from tinygpt.core.ops.flat import update
from tinygpt.core.ops.op import declare

# rates[counters[0] mod rows], of step number counters[0] + 1: lr, decay = lr * weight_decay.
declare(
    "sgd",
    "grads norm rates counters -> weights+ m+ | P decayed rows | momentum",
    "grads=P norm=2 rates=rows,2 counters:i32=4 weights=P m=P",
    update,
)
