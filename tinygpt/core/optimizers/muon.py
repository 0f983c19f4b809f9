"""Muon: the blocks' matrices step by their momentum made orthogonal; AdamW takes the rest."""

from tinygpt.core.errors import TinyGPTError
from tinygpt.core.models.parameters import is_hidden_matrix
from tinygpt.core.ops.flat import part
from tinygpt.core.ops.muon import desks
from tinygpt.core.ops.muon_matrices import matrices_of
from tinygpt.core.optimizers import adamw
from tinygpt.core.optimizers.optimizer import Optimizer
from tinygpt.core.run.schedule import learning_rate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tinygpt.core.config import RunConfig, TrainConfig
    from tinygpt.core.models.memory import Memory
    from tinygpt.core.ops.op import Program

# x := a x + b x^3 + c x^5 of each singular value x: five times it brings those above 1/600 to between 0.7 and 1.2.
QUINTIC = (3.4445, -4.7750, 2.0315)
# Iterations in a row that go by X X^T alone multiply its least eigenvalues by a^2 each, and their rounding errors too.
MOST_GROWTH = 2.0**18


def run_length(iterations: int) -> int:
    """How many iterations in a row may go by X X^T alone."""
    slope = QUINTIC[0] * QUINTIC[0]
    length, growth = 1, slope
    while length < iterations and growth * slope <= MOST_GROWTH:
        length, growth = length + 1, growth * slope
    return length


def rates_of(train: "TrainConfig", step: int) -> tuple[float, ...]:
    """AdamW's, then the matrices', which follow the same schedule, then the iterations' coefficients."""
    lr = learning_rate(train, step)
    matrix_lr = train.matrix_lr * lr / train.lr
    return adamw.rates_at(train, step, lr) + (matrix_lr, matrix_lr * train.weight_decay) + QUINTIC * train.ns_steps


def update(p: "Program", config: "RunConfig", memory: "Memory") -> None:
    layout, model, train = memory.layout, config.model, config.train
    starts = [move.start for move in layout.moves if is_hidden_matrix(move.name)]
    if not starts:
        adamw.update(p, config, memory)
        return
    first, end = starts[0], layout.decayed
    C, F, stride = model.d_model, model.d_mlp, (end - first) // model.layers
    gates = len(starts) // model.layers - 5
    o_at, in_at, out_at = [starts[i] - first for i in (3, 4, 4 + gates)]
    matrices = matrices_of(model.layers, stride, C, model.kv_width, F, gates, o_at, in_at, out_at)
    if [first + matrix.start for matrix in matrices] != starts:
        raise TinyGPTError("the blocks' matrices do not lie where Muon looks for them; this is a bug")
    adamw.update_stretch(p, config, memory, 0, first)
    vectors = {"grads": memory.grads, "weights": memory.live, "m": memory.slots[0]}
    rows, columns = memory.rates.shape
    p.call(
        "muon", norm=memory.norm, rates=memory.rates, counters=memory.counters, P=end - first, rows=rows,
        columns=columns, layers=model.layers, stride=stride, C=C, W=model.kv_width, F=F, gates=gates, o_at=o_at,
        in_at=in_at, out_at=out_at, steps=train.ns_steps, every=run_length(train.ns_steps),
        desks=desks(len(matrices), C, F), momentum=train.momentum,
        **{name: part(vectors[name], first, end - first) for name in vectors},
    )  # fmt: skip
    if end < layout.size:
        adamw.update_stretch(p, config, memory, end, layout.size)


MUON = Optimizer(slots=("m", "v"), rates_of=rates_of, update=update)
