"""What if? One thing of a run is changed at one of its steps: what can be, and what came of it in runs of ours.

Those were forked, change by change, by `python -m lab.whatif`: what is said of a change is what it did there, and
beside it what follows from the numbers of the run at hand.
"""

import json
from collections import namedtuple

from tinygpt.core.config import run_config_of
from tinygpt.core.corpus import train_bytes as train_bytes_of
from tinygpt.core.kinds import model_of
from tinygpt.core.presets import cut_short, preset
from tinygpt.labs.whatif_numbers import FORKS, PRESET, SEEDS, STEPS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tinygpt.core.config import RunConfig

SAME = 0.01  # nats of validation loss: closer than that two ends are called the same
BETTER, EQUAL, WORSE = "better", "the same", "worse"
ASIDE = ("seed", "val_fraction", "eval_every", "eval_batches", "sample_every", "checkpoint_every", "keep_every")
RATES = ("lr", "min_lr", "matrix_lr", "ngram_lr")
FACTORS = ((10.0, "10 times the learning rate"), (4.0, "4 times the learning rate"),
           (0.25, "a quarter of the learning rate"), (0.1, "a tenth of the learning rate"))  # fmt: skip
DROPOUTS = (0.0, 0.1, 0.3)

# settings: that are another from the step on;  part: of the model, which begins anew with zeros there, or "".
Change = namedtuple("Change", ("name", "label", "settings", "part"))
# guess: BETTER, EQUAL or WORSE, None where nothing like it was measured;  text: in a few sentences.
Expected = namedtuple("Expected", ("guess", "text"))
# Of forks of one change at one step: what it did to the validation loss at once, and at the end: of all seeds the
# lowest, the mean and the highest difference from the original.
Fork = namedtuple("Fork", ("step", "at_once", "low", "mean", "high"))


def changes_of(config: "RunConfig") -> "list[Change]":
    """What can be changed of a run on its way."""
    train = config.train
    found = []
    for factor, label in FACTORS:
        settings = {name: float(f"{factor * getattr(train, name):.7g}") for name in RATES}
        found.append(Change(f"rate-{factor:g}", label, settings, ""))
    found.append(
        Change("batch-4", f"batches of {4 * train.batch} instead of {train.batch}", {"batch": 4 * train.batch}, "")
    )
    if train.batch >= 4:
        quarter = train.batch // 4
        found.append(Change("batch-0.25", f"batches of {quarter} instead of {train.batch}", {"batch": quarter}, ""))
    for share in DROPOUTS:
        if share != train.dropout:
            label = f"dropout {share:g} instead of {train.dropout:g}"
            found.append(Change(f"dropout-{share:g}", label, {"dropout": share}, ""))
    for part in model_of(config.model.kind).parts(config.model):
        found.append(Change(f"without-{part.name}", f"{part.name} set to zero", {}, part.name))
    return found


def expected(config: "RunConfig", change: Change, step: int, train_bytes: int) -> Expected:
    """What to expect of a run that is changed behind a step, before it trains."""
    said = derived(config, change, step, train_bytes)
    forks = [Fork(*row) for row in FORKS.get(change.name, ())]
    if not forks:
        return Expected(None, f"Nobody has measured this change. {said}".strip())
    share = step / max(1, config.train.steps)
    fork = min(forks, key=lambda fork: abs(fork.step / STEPS - share))
    guess = guess_of(fork)
    told = (
        f"{SEEDS} runs of ours ({PRESET}, {STEPS} steps), changed so after step {fork.step}, ended "
        f"{difference(fork.mean)} on text that they had not read ({fork.low:+.3f} to {fork.high:+.3f})"
    )
    if change.part:
        told += (
            f"; at once they were {fork.at_once:.2f} worse" if fork.at_once >= SAME else "; at once they lost nothing"
        )
    like = "" if is_like(config) else " Yours is another kind of run: it may differ."
    return Expected(guess, f"{told}. So expect it to be {guess}.{like} {said}".strip())


def guess_of(fork: Fork) -> str:
    return outcome(fork.mean)


def outcome(off: float) -> str:
    """In one of three words, of a validation loss less the original's; what is no number is worse."""
    if off != off or off > SAME:
        return WORSE
    return BETTER if off < -SAME else EQUAL


def difference(off: float) -> str:
    if outcome(off) == EQUAL:
        return f"within {SAME} of the originals' loss"
    return f"with a loss {abs(off):.3f} {'higher' if off > 0 else 'lower'} than the originals'"


def is_like(config: "RunConfig") -> bool:
    """Whether a run is one of those that were measured, whatever its seed and how often it is looked at and kept."""
    usual = cut_short(preset(PRESET, "modern"), {"steps": STEPS})
    aside = {name: getattr(usual.train, name) for name in ASIDE}
    return bool(config.model == usual.model and config.train.replace(**aside) == usual.train)


def derived(config: "RunConfig", change: Change, step: int, train_bytes: int) -> str:
    """What follows from the run's own numbers."""
    train, left = config.train, config.train.steps - step
    settings = change.settings
    letters = train.batch * train.grad_accum * config.model.ctx
    if "batch" in settings:
        times = settings["batch"] / train.batch
        noise = "half as" if times > 1 else "twice as" if times == 0.25 else f"{times**-0.5:.1f} times as"
        return (
            f"Each of its {left:,} steps reads {int(letters * times):,} letters instead of {letters:,}: it is about "
            f"{times:.2g} times the work, and the gradient is about {noise} noisy, for noise falls with the root."
        )
    if "dropout" in settings:
        passes = train.steps * letters / max(1, train_bytes)
        often = f"The whole run reads its text {passes:.2g} times"
        if settings["dropout"] < train.dropout:
            risk = "there is little to learn by heart" if passes < 1 else "without dropout it may learn it by heart"
            return f"{often}: {risk}."
        rare = "so there is nothing yet that dropout could keep it from learning by heart"
        return f"{often}, {rare}." if passes < 1 else f"{often}: dropout is there against learning it by heart."
    if change.part:
        return f"The part begins again with zeros and may learn: it has {left:,} steps for that."
    peak = "lr" if train.optimizer != "muon" else "matrix_lr"
    return f"The rate ({peak}) is {settings[peak]:g} at its highest then, instead of {getattr(train, peak):g}."


def facts(config: "RunConfig", step: int, train_bytes: int) -> "list[dict[str, Any]]":
    """Every change with what to expect, as plain data."""
    rows = []
    for change in changes_of(config):
        guess, text = expected(config, change, step, train_bytes)
        row = {"name": change.name, "label": change.label, "changes": change.settings, "part": change.part}
        row.update({"guess": guess, "text": text})
        rows.append(row)
    return rows


def asked(request: str) -> str:
    """Of {"config", "step", "bytes"}, the bytes being those of its text: what to expect, as JSON."""
    said = json.loads(request)
    config = run_config_of(said["config"])
    rows = facts(config, said["step"], train_bytes_of(said["bytes"], config.train.val_fraction))
    return json.dumps({"same": SAME, "changes": rows})
