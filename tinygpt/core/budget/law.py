"""What validation loss a run of the recipe `modern` will end with, before it begins.

A formula with few numbers, fitted to our own finished runs (reference_runs.py) by tinygpt/sweeps/fitting.py. Each of
those had warm-up, schedule and averaging fitted to its own length: the law foretells ends, not what is on the way.
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
HIGHEST = 2.0  # times the usual height: further off than that, no text was tried

# A text to train on: `hardness` is hardness(train, held_out).
TextFacts = namedtuple("TextFacts", ("train_bytes", "hardness"))
# From `low` to `high` about nineteen of twenty runs should end.
Prediction = namedtuple("Prediction", ("loss", "low", "high"))

# sizes: by preset (floor, height): a run on ever new text ends at floor + height * (millions of tokens) ** -exponent.
# critical_batch: a batch of so many tokens is worth half its tokens.
# repeats: (scale, parameters, tokens, bytes): what reading a text again and again adds, a product of powers.
# dropout: (relief, cost): how much of that it takes away, and what it adds.
# spread: twice the standard deviation of what is left over, as a share of the loss.
# usual: the hardness of the text that all this is for, by how much of it there is: ((bytes, hardness), ...).
# harder: to which powers another text's hardness, as a multiple of the usual, raises the floor and lowers the height.
Law = namedtuple("Law", ("sizes", "exponent", "critical_batch", "repeats", "dropout", "harder", "usual", "spread"))


def end_loss(law: Law, name: str, tokens: int, batch_tokens: int, dropout: float, text: TextFacts) -> float:
    """What a run of so many tokens will end with."""
    floor, height = law.sizes[name]
    scale, of_parameters, of_tokens, of_bytes = law.repeats
    relief, cost = law.dropout
    harder = text.hardness / usual_hardness(law, text.train_bytes)
    of_floor, of_height = law.harder
    floor *= harder**of_floor
    height *= min(HIGHEST, max(1.0 / HIGHEST, harder**-of_height))
    useful = tokens / (1.0 + batch_tokens / law.critical_batch) / MILLION
    fresh = floor + height * useful**-law.exponent
    again = scale * (parameters_of(name) / MILLION) ** of_parameters * (tokens / MILLION) ** of_tokens
    again *= (text.train_bytes / MILLION) ** -of_bytes * math.exp(-relief * dropout)
    return float(min(LN_VOCAB, fresh + again + cost * dropout))


KNOWN_PARAMETERS: dict[str, int] = {}


def parameters_of(name: str) -> int:
    if name not in KNOWN_PARAMETERS:
        KNOWN_PARAMETERS[name] = parameter_count(preset(name, RECIPE).model)
    return KNOWN_PARAMETERS[name]


def usual_hardness(law: Law, train_bytes: int) -> float:
    """Of the law's own text, where there is only so much of it to learn from."""
    points = law.usual
    if train_bytes <= points[0][0]:
        return float(points[0][1])
    for i in range(1, len(points)):
        (less, harder), (more, easier) = points[i - 1], points[i]
        if train_bytes <= more:
            share = math.log(train_bytes / less) / math.log(more / less)
            return float(harder + share * (easier - harder))
    return float(points[-1][1])


def predict(law: Law, name: str, run: "RunConfig", text: TextFacts) -> Prediction:
    """Of a run of a preset by the recipe, whose batch, steps and dropout may be its own."""
    train = run.train
    batch_tokens = train.batch * train.grad_accum * run.model.ctx
    loss = end_loss(law, name, train.steps * batch_tokens, batch_tokens, train.dropout, text)
    return Prediction(loss, loss * (1.0 - law.spread), loss * (1.0 + law.spread))
