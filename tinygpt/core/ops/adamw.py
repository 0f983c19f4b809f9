"""AdamW over the flat vector of all parameters."""

from tinygpt.core.ops.flat import update
from tinygpt.core.ops.op import declare

# rates[counters[0] mod rows] begins, of step number t = counters[0] + 1, with step_size = lr / (1 - beta1^t),
# root_correction = 1 / sqrt(1 - beta2^t), decay = lr * weight_decay.
declare(
    "adamw",
    "grads norm rates counters -> weights+ m+ v+ | P decayed rows columns | beta1 beta2 eps",
    "grads=P norm=2 rates=rows,columns counters:i32=4 weights=P m=P v=P",
    update,
)
