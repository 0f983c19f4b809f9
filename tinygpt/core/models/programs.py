"""The programs of a model, by mode: what a step does, a validation, a byte of a text."""

import struct

from tinygpt.core.config import VOCAB, RunConfig, validates
from tinygpt.core.kinds import model_of
from tinygpt.core.models.adapters import start_purpose, trained_parameters
from tinygpt.core.models.layers import ModelProgram
from tinygpt.core.models.memory import Memory, views
from tinygpt.core.models.ngrams import keep_recent, update_tables
from tinygpt.core.ops.compact import READS, unpack
from tinygpt.core.ops.op import Program, Tensor
from tinygpt.core.ops.record import RING
from tinygpt.core.optimizers import optimizer_of
from tinygpt.core.rng import BATCH, EVAL, SHUFFLED_WINDOWS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

SHORT = "prefill_"  # before the number of bytes that a prefill looks at, where that is less than a window
SHORTEST = 8


def whole_windows(config: RunConfig, memory: Memory, mode: str, learns: bool) -> ModelProgram:
    return ModelProgram(mode, config, memory, config.train.batch, config.model.ctx, learns)


def draw_windows(p: ModelProgram, text: Tensor, seed: int, purpose: int, parts: int = 0) -> None:
    memory = p.memory
    p.call(
        "draw_windows", corpus=text, counters=memory.counters, tokens=memory.tokens, targets=memory.targets,
        B=p.B, T=p.T, bytes=text.shape[0], seed=seed, purpose=purpose, parts=parts,
    )  # fmt: skip


def forward_and_backward(config: RunConfig, memory: Memory, mode: str, fed: bool) -> Program:
    """One batch, drawn from the training text or, if `fed`, written by the host."""
    train = config.train
    p = whole_windows(config, memory, mode, learns=True)
    count = p.N * train.grad_accum
    if not fed:
        parts = train.grad_accum if train.windows == SHUFFLED_WINDOWS else 0
        draw_windows(p, memory.train_text, train.seed, BATCH, parts)
    model = model_of(config.model.kind)
    logits, saved = model.forward(p, memory.tokens)
    dlogits = p.rows("dlogits", VOCAB)
    p.call(
        "cross_entropy", logits=logits, targets=memory.targets, losses=memory.losses, dlogits=dlogits,
        N=p.N, V=VOCAB, count=count, smoothing=train.label_smoothing,
    )  # fmt: skip
    p.call("mean_loss", losses=memory.losses, loss=memory.loss, N=p.N, count=count)
    model.backward(p, memory.tokens, dlogits, saved)
    return p


def add_update(p: Program, config: RunConfig, memory: Memory) -> None:
    """Clip by the global norm, then what the optimizer makes of it; the step is done."""
    p.call(
        "grad_norm", grads=memory.grads, norm=memory.norm, P=memory.layout.size, limit=config.train.grad_clip
    )  # fmt: skip
    p.commit()
    optimizer_of(config.train).update(p, config, memory)
    if memory.squares is not None:
        update_tables(p, memory)
    if config.train.average:
        p.call(
            "average", live=memory.live, rates=memory.average_rates, counters=memory.counters, weights=memory.weights,
            P=memory.layout.size, rows=RING,
        )  # fmt: skip
    p.call("record", loss=memory.loss, norm=memory.norm, ring=memory.ring, counters=memory.counters, rows=RING)


def step_program(config: RunConfig, memory: Memory, fed: bool = False) -> Program:
    """A whole step of one batch."""
    p = forward_and_backward(config, memory, "train_fed" if fed else "train", fed)
    add_update(p, config, memory)
    return p


def gradient_program(config: RunConfig, memory: Memory, mode: str) -> Program:
    """One batch of several in a step."""
    p = forward_and_backward(config, memory, mode, fed=False)
    p.commit()
    p.call("count", counters=memory.counters, which=1)
    return p


def update_program(config: RunConfig, memory: Memory) -> Program:
    p = Program("update")
    add_update(p, config, memory)
    return p


def loss_program(config: RunConfig, memory: Memory, mode: str) -> ModelProgram:
    """The loss of each row of a batch, drawn from the validation text for "validate", else the host's."""
    p = whole_windows(config, memory, mode, learns=False)
    if mode == "validate":
        draw_windows(p, memory.val_text, config.train.seed, EVAL)
    model = model_of(config.model.kind)
    logits = model.inspect(p, memory.tokens) if mode == "inspect" else model.forward(p, memory.tokens)[0]
    p.call("cross_entropy", logits=logits, targets=memory.targets, losses=memory.losses, N=p.N, V=VOCAB, count=p.N)
    return p


def likeliest_program(config: RunConfig, memory: Memory) -> Program:
    """The most likely byte after each row of a batch that the host wrote."""
    p = whole_windows(config, memory, "likeliest", learns=False)
    logits, _ = model_of(config.model.kind).forward(p, memory.tokens)
    p.call("likeliest", logits=logits, best=memory.best, N=p.N, V=VOCAB)
    return p


def validate_program(config: RunConfig, memory: Memory) -> Program:
    """One batch of a validation: val_loss adds up over all of them."""
    p = loss_program(config, memory, "validate")
    count = p.N * config.train.eval_batches
    p.commit()
    p.call("mean_loss", losses=memory.losses, loss=memory.val_loss, N=p.N, accumulate=1, count=count)
    p.call("count", counters=memory.counters, which=2)
    return p


def writing_program(
    p: ModelProgram, tokens: Tensor, logits: Tensor, row: Tensor | None, keep: "Callable[[Program], None] | None"
) -> Program:
    """The byte drawn by the logits that follow `tokens`, of text number `row` or of all; then the model keeps what
    outlives the run."""
    memory = p.memory
    p.commit()
    if keep is not None:
        keep(p)
    if memory.tables is not None:
        keep_recent(p, memory, tokens, row)
    p.call(
        "sample", logits=logits, choice=memory.choice, row=row, written=memory.written, token=memory.token,
        position=memory.position, cursor=memory.cursor, room=memory.written.shape[1], N=logits.shape[0],
        R=memory.texts,
    )  # fmt: skip
    return p


def prefill_program(config: RunConfig, memory: Memory, mode: str = "prefill") -> Program:
    """Read the `prompt` of the text `row` up to its `position`, and draw the byte after that. "prefill_8" looks at the
    first 8 bytes only."""
    ctx = config.model.ctx
    rows = int(mode[len(SHORT) :]) if mode.startswith(SHORT) else ctx
    prompt = memory.prompt if rows == ctx else memory.prompt.view("prompt", (rows,), 0)
    p = ModelProgram(mode, config, memory, 1, rows, learns=False)
    keep = model_of(config.model.kind).prefill(p, prompt, memory.prompt_logits)
    return writing_program(p, prompt, memory.prompt_logits, memory.row, keep)


def decode_program(config: RunConfig, memory: Memory) -> Program:
    """Read the `token` of every text, at its `position`, and draw the byte after it, unless the text is over."""
    p = ModelProgram("decode", config, memory, 1, memory.texts, learns=False)
    keep = model_of(config.model.kind).decode(p, memory.token, memory.next_logits)
    return writing_program(p, memory.token, memory.next_logits, None, keep)


def reset_program(config: RunConfig, memory: Memory) -> Program:
    """Start values, and an optimizer that has seen nothing."""
    p = init_program(config, memory)
    p.mode = "reset"
    tables = [memory.tables, memory.squares] if memory.squares is not None else []  # else they are the base's
    for slot in memory.slots + [tensor for tensor in tables if tensor is not None]:
        p.call("constant", y=slot, P=slot.size, start=0, value=0.0)
    return p


def unpack_program(config: RunConfig, memory: Memory) -> Program:
    """Weights that are compact, as floats."""
    p = Program("unpack")
    unpacked = views(memory.layout, memory.weights, "")
    for place in memory.layout.places:
        packed, y = memory.weight[place.name], unpacked[place.name]
        if packed.dtype in READS:
            unpack(p, packed, y)
        else:
            p.call("copy", x=packed, y=y, P=y.size)
    return p


def rejoin_program(config: RunConfig, memory: Memory) -> Program:
    """Where weights are averages: steps go on from the weights that are kept."""
    p = Program("rejoin")
    p.call("copy", x=memory.weights, y=memory.live, P=memory.layout.size)
    return p


def init_program(config: RunConfig, memory: Memory) -> Program:
    """Start values, tensor by tensor, where all is zero."""
    p = Program("init")
    starts = {move.name: move.start for move in memory.layout.moves}
    every = trained_parameters(config)
    for index in range(len(every)):
        row = every[index]
        y = memory.weight[memory.layout.holder[row.name]]
        start = starts[row.name] - y.start
        if row.std:
            high, low = struct.unpack(">II", struct.pack(">d", row.std))
            p.call(
                "normal", y=y, P=row.size, start=start, seed=config.train.seed, purpose=start_purpose(config),
                index=index, std_high=high, std_low=low,
            )  # fmt: skip
        else:
            p.call("constant", y=y, P=row.size, start=start, value=row.fill)
    return p


PROGRAMS = {
    "init": init_program,
    "reset": reset_program,
    "rejoin": rejoin_program,
    "unpack": unpack_program,
    "train": step_program,
    "train_fed": lambda config, memory: step_program(config, memory, fed=True),
    "gradient": lambda config, memory: gradient_program(config, memory, "gradient"),
    "accumulate": lambda config, memory: gradient_program(config, memory, "accumulate"),
    "update": update_program,
    "validate": validate_program,
    "eval": lambda config, memory: loss_program(config, memory, "eval"),
    "inspect": lambda config, memory: loss_program(config, memory, "inspect"),
    "gradients": lambda config, memory: forward_and_backward(config, memory, "gradients", fed=True),
    "likeliest": likeliest_program,
    "prefill": prefill_program,
    "decode": decode_program,
}


def step_modes(config: RunConfig) -> list[str]:
    """The programs of a step: one, or with gradient accumulation "gradient", "accumulate" for each further batch,
    then "update"."""
    return ["train"] if config.train.grad_accum == 1 else ["gradient", "accumulate", "update"]


def plain_program(mode: str, config: RunConfig, memory: Memory) -> Program:
    """As the model's text has it."""
    if mode.startswith(SHORT):
        return prefill_program(config, memory, mode)
    made: Program = PROGRAMS[mode](config, memory)
    return made


def short_prefills(config: RunConfig) -> list[str]:
    """The programs for prompts that are shorter than a window, by how many bytes they look at: 8, 32, 128, …"""
    lengths = [SHORTEST * 4**i for i in range(16)]
    return [SHORT + str(length) for length in lengths if length < config.model.ctx]


def prefill_for(length: int, planned: list[str]) -> str:
    """The shortest planned prefill that fits the prompt."""
    lengths = [int(mode[len(SHORT) :]) for mode in planned if mode.startswith(SHORT)]
    fitting = [rows for rows in lengths if rows >= length]
    return SHORT + str(min(fitting)) if fitting else "prefill"


WRITING = ["prefill", "decode"]
UNPACK = "unpack"
READING = WRITING + ["eval", "likeliest", UNPACK]  # what takes compact weights
LOOKING = ["inspect", "gradients"]  # forward, and backward as well, on windows that the host wrote
LEARNING = ["gradients", "train", "train_fed", "gradient", "accumulate"]  # forward and backward
WATCHED = ["inspect"] + LEARNING  # what has one name there has one shape


def with_start(config: RunConfig, modes: list[str]) -> list[str]:
    """Where weights are averages and programs take steps from them, with the program that begins it."""
    steps = [mode for mode in modes if mode not in WRITING + ["rejoin", "init", "reset", "validate", "eval"]]
    return modes + ["rejoin"] if config.train.average and steps and "rejoin" not in modes else modes


def all_modes(config: RunConfig) -> list[str]:
    """Every program that there is of a run; those of LOOKING are for a single window."""
    return step_modes(config) + ["validate", "eval", "likeliest"] + WRITING


def training_modes(config: RunConfig, val_bytes: int) -> list[str]:
    """All that a training run needs: its steps, validation where there is text for it, samples."""
    validation = ["validate"] if validates(config, val_bytes) else []
    return with_start(config, step_modes(config) + validation + WRITING)
