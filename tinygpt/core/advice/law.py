"""What validation loss a run of the recipe `modern` will reach, before it begins: its best, whose model is kept.

A formula with few numbers, fitted by lab/law/fitting.py to our own finished runs (beside it): once to those with
n-gram tables, once to those without. Each of those
had warm-up, schedule and averaging fitted to its own length: the law foretells runs that are trained to their
end, not what a longer run has on the way there.
"""

import math
from collections import namedtuple

from tinygpt.core.config import LN_VOCAB
from tinygpt.core.models.parameters import parameter_count
from tinygpt.core.presets import preset

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tinygpt.core.config import RunConfig

RECIPE = "modern"  # whose runs the law foretells
MILLION = 1e6
FLOOR = 0.5  # nats per byte that no run goes below on a text of usual hardness. Ours are too short to tell it.
USUAL = 2.0  # about the hardness of the texts that the law was fitted to
STEEPEST = 1.5  # times the usual exponent: further off than that, no text was tried

# A text to train on: `hardness` is hardness(train, held_out).
TextFacts = namedtuple("TextFacts", ("train_bytes", "hardness"))
# From `low` to `high` about nineteen of twenty runs should end.
Prediction = namedtuple("Prediction", ("loss", "low", "high"))

# sizes: by preset the height: a run on ever new text of usual hardness ends at
#     FLOOR + height * (millions of useful tokens) ** -exponent.
# exponent: (of a million parameters and bytes, to which powers of the parameters and of the text's bytes it grows).
# batch: (critical, cost): one of `critical` tokens is worth half of them; each halving of the recipe's has a cost.
# repeats: (scale, parameters, bytes, sharpness). A text can be read for `scale` million tokens times powers of a
# model's parameters and its bytes before half of them are lost on it. With a sharpness above 1, more of them do harm.
# dropout: (relief, cost): how much longer it can be read, and by what share the loss is higher.
# harder: to which powers a text's hardness, as a multiple of the usual, raises the height and lowers the exponent.
# spread: twice the standard deviation of what is left over, as a share of the loss.
Law = namedtuple("Law", ("sizes", "exponent", "batch", "repeats", "dropout", "harder", "spread"))
# Of runs without n-gram tables and of those with them, which learn sooner and learn a text by heart sooner, too.
Laws = namedtuple("Laws", ("plain", "tables"))


def end_loss(law: Law, name: str, tokens: int, batch_tokens: int, dropout: float, text: TextFacts) -> float:
    """What a run of so many tokens will come to."""
    exponent, with_parameters, with_bytes = law.exponent
    critical, of_halving = law.batch
    scale, of_parameters, of_bytes, sharpness = law.repeats
    relief, cost = law.dropout
    raises, lowers = law.harder
    parameters, usual_batch = known_size(name)
    harder = text.hardness / USUAL
    text_bytes = text.train_bytes / MILLION
    enough = scale * parameters**-of_parameters * text_bytes**of_bytes * math.exp(relief * dropout)
    useful = tokens / MILLION / (1.0 + batch_tokens / critical) / (1.0 + (tokens / MILLION / enough) ** sharpness)
    slope = exponent * parameters**with_parameters
    slope *= min(STEEPEST, max(1.0 / STEEPEST, text_bytes**with_bytes * harder**-lowers))
    loss = FLOOR * harder + law.sizes[name] * harder**raises * useful**-slope
    halvings = max(0.0, math.log(usual_batch / batch_tokens) / math.log(2.0))
    return float(min(LN_VOCAB, loss * (1.0 + cost * dropout) * (1.0 + of_halving * halvings)))


KNOWN: "dict[str, tuple[float, int]]" = {}


def known_size(name: str) -> "tuple[float, int]":
    """Millions of parameters of a preset, and tokens of its batch."""
    if name not in KNOWN:
        run = preset(name, RECIPE)
        KNOWN[name] = parameter_count(run.model) / MILLION, run.train.batch * run.model.ctx
    return KNOWN[name]


def predict(laws: Laws, name: str, run: "RunConfig", text: TextFacts) -> Prediction:
    """Of a run of a preset by the recipe, whose batch, steps and dropout may be its own."""
    law, train = laws.tables if run.model.ngrams else laws.plain, run.train
    batch_tokens = train.batch * train.grad_accum * run.model.ctx
    loss = end_loss(law, name, train.steps * batch_tokens, batch_tokens, train.dropout, text)
    return Prediction(loss, loss * (1.0 - law.spread), loss * (1.0 + law.spread))
