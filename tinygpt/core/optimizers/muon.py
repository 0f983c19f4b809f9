"""Muon: the blocks' matrices step by their momentum made orthogonal; AdamW takes the rest."""

from tinygpt.core.errors import TinyGPTError
from tinygpt.core.names import hidden_matrices
from tinygpt.core.ops.flat import part
from tinygpt.core.ops.muon import desks
from tinygpt.core.ops.muon_matrices import matrices_of
from tinygpt.core.optimizers import adamw
from tinygpt.core.optimizers.optimizer import Optimizer
from tinygpt.core.optimizers.schedule import learning_rate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tinygpt.core.config import RunConfig, TrainConfig
    from tinygpt.core.models.memory import Memory
    from tinygpt.core.ops.op import Program

# x := a x + b x^3 + c x^5 of each singular value x: five times it brings those above 1/600 to between 0.7 and 1.2.
QUINTIC = (3.4445, -4.7750, 2.0315)
# One polynomial after the other, each the best for the range that the ones before leave: three bring singular values
# above 0.01 to between 0.73 and 1.27, four those above 0.004 to between 0.87 and 1.13.
POLAR = {
    3: ((8.093369, -23.620432, 17.446152), (3.636586, -2.721927, 0.536546), (2.661300, -1.977155, 0.452616)),
    4: (
        (8.340981, -24.597371, 18.223027),
        (3.977995, -2.965434, 0.564272),
        (3.327479, -2.495237, 0.510813),
        (2.308565, -1.675994, 0.419574),
    ),
}
# Iterations in a row that go by X X^T alone multiply its least eigenvalues by a^2 each, and their rounding errors too.
MOST_GROWTH = 2.0**18


def polynomials(train: "TrainConfig") -> "tuple[tuple[float, float, float], ...]":
    """The coefficients a, b and c of each iteration."""
    return POLAR[train.ns_steps] if train.ns_polynomials == "polar" else (QUINTIC,) * train.ns_steps


def run_length(iterations: "tuple[tuple[float, float, float], ...]") -> int:
    """How many iterations in a row may go by X X^T alone."""
    length, growth = 0, 1.0
    for a, _, _ in iterations:
        growth *= a * a
        if growth > MOST_GROWTH:
            break
        length += 1
    return max(1, length)


def rates_of(train: "TrainConfig", step: int) -> "tuple[float, ...]":
    """AdamW's, then the matrices', which follow the same schedule, then the iterations' coefficients."""
    lr = learning_rate(train, step)
    matrix_lr = train.matrix_lr * lr / train.lr
    rates: tuple[float, ...] = adamw.rates_at(train, step, lr) + (matrix_lr, matrix_lr * train.weight_decay)
    for coefficients in polynomials(train):
        rates += coefficients
    return rates


def update(p: "Program", config: "RunConfig", memory: "Memory") -> None:
    layout, model, train = memory.layout, config.model, config.train
    hidden = hidden_matrices([move.name for move in layout.moves])
    if not hidden:
        adamw.update(p, config, memory)
        return
    starts = [move.start for move in layout.moves if move.name in hidden]
    shapes = [member.shape for place in layout.places for member in layout.members[place.name] if member.name in hidden]
    first, end = starts[0], layout.decayed
    C, F, stride = model.d_model, model.d_mlp, (end - first) // model.layers
    gates = len(starts) // model.layers - 5
    o_at, in_at, out_at = [starts[i] - first for i in (3, 4, 4 + gates)]
    matrices = matrices_of(model.layers, stride, C, model.kv_width, F, gates, o_at, in_at, out_at)
    if [(first + m.start, (m.outputs, m.inputs)) for m in matrices] != list(zip(starts, shapes)):  # noqa: B905
        raise TinyGPTError("the blocks' matrices do not lie where Muon looks for them; this is a bug")
    adamw.update_stretch(p, config, memory, 0, first)
    vectors = {"grads": memory.grads, "weights": memory.live, "m": memory.slots[0]}
    rows, columns = memory.rates.shape
    p.call(
        "muon", norm=memory.norm, rates=memory.rates, counters=memory.counters, P=end - first, rows=rows,
        columns=columns, layers=model.layers, stride=stride, C=C, W=model.kv_width, F=F, gates=gates, o_at=o_at,
        in_at=in_at, out_at=out_at, steps=train.ns_steps, every=run_length(polynomials(train)),
        desks=desks(len(matrices), C, F), momentum=train.momentum,
        **{name: part(vectors[name], first, end - first) for name in vectors},
    )  # fmt: skip
    if end < layout.size:
        adamw.update_stretch(p, config, memory, end, layout.size)


MUON = Optimizer(slots=("m", "v"), rates_of=rates_of, update=update)
