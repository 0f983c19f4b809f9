"""What a capsule holds, and how one is made of a run and read from a stranger's file.

Whoever has the text it names can replay its first steps, or all of them, on any engine: compare.py says what then has
to agree.
"""

from collections import namedtuple

from tinygpt.core.config import SHAPE, ModelConfig, RunConfig, TrainConfig
from tinygpt.core.corpus import check_corpus
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.file.header import as_loss
from tinygpt.core.file.strict_json import json_object, parse_object, quoted, text_of, whole
from tinygpt.core.optimizers.schedule import learning_rate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    Json = dict[str, Any]

FORMAT = "tinygpt-capsule"
FORMAT_VERSION = 1
LARGEST_FILE = 1 << 20  # bytes
NO_CAPSULE = "this file is no capsule"
MOST_LOSSES = 8192  # of a longer run every second step is told of, or every fourth, ...
LARGEST_LOSS = 1e6  # a run is stopped long before
LARGEST_TEXT = 2**31
LONGEST_NAME = 200  # characters
LONGEST_NOTE = 400  # characters
RATE_ROUNDING = 1e-6  # to which two interpreters agree on a rate

FACTS = ("tinygpt", "title", "config", "lengths", "text", "engine", "device", "steps", "losses", "weights")
KEYS = ("format", "version") + FACTS

# name: the corpus's, or a file's without its folder;  sha256, bytes: of all of it;  train: bytes from the front that
# are trained on;  budget: bytes that were taken of a dataset or a task, 0 where that means nothing.
TextFacts = namedtuple("TextFacts", ("name", "sha256", "bytes", "train", "budget"))
TEXT_KEYS = ("name", "sha256", "bytes", "train", "budget")
# lengths: [step, how many steps the run was to have behind it], from step 0 on; the last one is the config's.
# tinygpt: the version that trained it;  device: what computed, in words;  steps: that were done;  losses: of the steps
# 1, 1 + stride, ...;  weights: the sha256 of the last ones, as store/formats/checkpoint.py takes it.
Capsule = namedtuple(
    "Capsule", ("tinygpt", "title", "config", "lengths", "text", "engine", "device", "steps", "losses", "weights")
)


def stride_of(steps: int) -> int:
    stride = 1
    while (steps - 1) // stride + 1 > MOST_LOSSES:
        stride *= 2
    return stride


def told_steps(steps: int) -> range:
    """Those of which a capsule of so many steps tells the loss."""
    return range(1, steps + 1, stride_of(steps))


def trace_of(
    config: RunConfig,
    lengths: "Sequence[Sequence[int]]",
    rows: "Sequence[tuple[int, float, float]]",
    steps: int,
    tokens_seen: int,
) -> list[float]:
    """The losses to tell of a run that has done so many steps, from (step, loss, learning rate) of each.

    Refused where the settings alone do not say what every step did.
    """
    if steps < 1:
        raise TinyGPTError("this run has done no step yet, so there is nothing to prove; train it first")
    train = config.train
    by_step: dict[int, tuple[float, float]] = {row[0]: (row[1], row[2]) for row in rows}
    ahead = list(lengths)
    for step in range(1, steps + 1):
        if step not in by_step:
            raise TinyGPTError(
                f"the loss of step {step:,} is not on record: a capsule needs a run that began with start values and "
                f"was noted from its first step on"
            )
        while ahead and ahead[0][0] < step:
            train = config.train.replace(steps=ahead.pop(0)[1])
        usual = learning_rate(train, step)
        if abs(by_step[step][1] - usual) > RATE_ROUNDING * usual:
            raise TinyGPTError(
                f"the settings of this run were changed on the way (the rate of step {step:,} was "
                f"{by_step[step][1]:.6g}, and would now be {usual:.6g}), and a capsule has one set of them"
            )
    if tokens_seen != steps * train.batch * train.grad_accum * config.model.ctx:
        raise TinyGPTError(
            "the batches of this run were changed on the way, or shared by several processes, and a capsule has one "
            "set of settings"
        )
    return [by_step[step][0] for step in told_steps(steps)]


def encode_capsule(capsule: Capsule) -> "Json":
    check_replayable(capsule)
    text = {key: getattr(capsule.text, key) for key in TEXT_KEYS}
    return {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "tinygpt": capsule.tinygpt,
        "title": capsule.title[:LONGEST_NAME],
        "config": capsule.config.as_dict(),
        "lengths": [list(pair) for pair in capsule.lengths],
        "text": text,
        "engine": capsule.engine,
        "device": capsule.device[:LONGEST_NOTE],
        "steps": capsule.steps,
        "losses": [float(rounded(loss)) for loss in capsule.losses],
        "weights": capsule.weights,
    }


def rounded(loss: float) -> str:
    """A float32 in as many digits as it takes to tell it from every other."""
    return f"{loss:.9g}"


def read_capsule(content: str) -> Capsule:
    """Every field is looked at; a sentence says which one is wrong."""
    if not content.lstrip().startswith("{"):
        raise TinyGPTError(NO_CAPSULE)
    stated = parse_object(content, "the capsule")
    if stated.get("format") != FORMAT:
        raise TinyGPTError(NO_CAPSULE)
    version = whole(stated.get("version"), "the capsule's version")
    if version != FORMAT_VERSION:
        raise TinyGPTError(
            f"the capsule is of version {version}, and this TinyGPT reads version {FORMAT_VERSION}; use another one"
        )
    require_keys(stated, KEYS, "the capsule")
    steps = whole(stated["steps"], "steps", 1, 10**9)
    capsule = Capsule(
        tinygpt=name_of(stated["tinygpt"], "tinygpt"),
        title=name_of(stated["title"], "title"),
        config=config_of(stated["config"]),
        lengths=lengths_of(stated["lengths"], steps),
        text=text_facts(stated["text"]),
        engine=name_of(stated["engine"], "engine"),
        device=name_of(stated["device"], "device", LONGEST_NOTE),
        steps=steps,
        losses=losses_of(stated["losses"], steps),
        weights=digest_of(stated["weights"], "weights"),
    )
    check_replayable(capsule)
    return capsule


def check_replayable(capsule: Capsule) -> None:
    if capsule.lengths[-1][1] != capsule.config.train.steps:
        raise TinyGPTError("the last of the capsule's lengths is not that of its config: it is damaged")
    check_corpus(capsule.config, capsule.text.train)
    if capsule.steps > capsule.config.train.steps:
        raise TinyGPTError(
            f"the capsule tells of {capsule.steps:,} steps of a run that has {capsule.config.train.steps:,}: it is "
            f"damaged"
        )


def require_keys(stated: "Json", keys: "Sequence[str]", what: str) -> None:
    for key in keys:
        if key not in stated:
            raise TinyGPTError(f"{what} does not state its '{key}': it is damaged")
    strange = sorted([key for key in stated if key not in keys])
    if strange:
        raise TinyGPTError(f"{what} states {quoted(strange[0])}, which none has: it is damaged")


def config_of(value: "Any") -> RunConfig:
    stated = json_object(value, "config")
    require_keys(stated, ("model", "train"), "the capsule's config")
    model, train = json_object(stated["model"], "config.model"), json_object(stated["train"], "config.train")
    for name in SHAPE:
        if name not in model:
            raise TinyGPTError(f"the capsule's config.model does not state its '{name}': it is damaged")
    return RunConfig(ModelConfig(**model), TrainConfig(**train))


def text_facts(value: "Any") -> TextFacts:
    stated = json_object(value, "text")
    require_keys(stated, TEXT_KEYS, "the capsule's text")
    size = whole(stated["bytes"], "text.bytes", 1, LARGEST_TEXT)
    return TextFacts(
        name=name_of(stated["name"], "text.name"),
        sha256=digest_of(stated["sha256"], "text.sha256"),
        bytes=size,
        train=whole(stated["train"], "text.train", 1, size),
        budget=whole(stated["budget"], "text.budget", 0, LARGEST_TEXT),
    )


def lengths_of(value: "Any", steps: int) -> "list[list[int]]":
    if not isinstance(value, list) or not 1 <= len(value) <= MOST_LOSSES:
        raise TinyGPTError("the capsule's lengths are no list, or too long a one: it is damaged")
    lengths: list[list[int]] = []
    for pair in value:
        if not isinstance(pair, list) or len(pair) != 2:
            raise TinyGPTError(f"the capsule tells of a length {quoted(pair)}, which is none: it is damaged")
        low = lengths[-1][0] + 1 if lengths else 0
        step = whole(pair[0], "the step of a length", low, steps if lengths else 0)
        lengths.append([step, whole(pair[1], "a length", 1, 10**9)])
    return lengths


def lengths_with(config: RunConfig, changes: "Sequence[Sequence[int]]", steps: int) -> "list[list[int]]":
    """From (step, length before, length behind it) of each change; one behind `steps` has not come yet."""
    made = sorted([list(change) for change in changes if 0 < change[0] < steps])
    lengths = [[0, made[0][1] if made else config.train.steps]]
    for step, _, length in made:
        lengths = [pair for pair in lengths if pair[0] < step] + [[step, length]]
    return lengths


def losses_of(value: "Any", steps: int) -> list[float]:
    expected = len(told_steps(steps))
    if not isinstance(value, list) or len(value) != expected:
        found = f"{len(value):,}" if isinstance(value, list) else "none"
        raise TinyGPTError(
            f"of {steps:,} steps a capsule tells {expected:,} losses, and this one {found}: it is damaged"
        )
    losses = []
    for item in value:
        loss = as_loss(item)
        if loss is None or not 0 <= loss <= LARGEST_LOSS:
            raise TinyGPTError(f"the capsule tells of a loss of {quoted(item)}, which is none: it is damaged")
        losses.append(loss)
    return losses


def digest_of(value: "Any", what: str) -> str:
    stated = text_of(value, what)
    if len(stated) != 64 or [letter for letter in stated if letter not in "0123456789abcdef"]:
        raise TinyGPTError(f"{what} must be a sha256 of 64 hexadecimal digits, not {quoted(stated)}")
    return stated


def name_of(value: "Any", what: str, longest: int = LONGEST_NAME) -> str:
    stated = text_of(value, what)
    if len(stated) > longest:
        raise TinyGPTError(f"{what} must have at most {longest} characters, not {len(stated):,}")
    return stated
