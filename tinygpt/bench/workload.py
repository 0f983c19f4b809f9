"""The same work for every engine: a text that needs no download, and the batches of the training loop."""

from __future__ import annotations

from tinygpt.core.config import RunConfig
from tinygpt.core.engine.contract import Engine, StepMetrics, run_now
from tinygpt.core.models.memory import Memory
from tinygpt.core.models.programs import step_program
from tinygpt.core.ops.record import RING
from tinygpt.core.rng import philox

TEXT_WORDS = 20_000


def made_up_text() -> bytes:
    """Words of one to eight letters in lines of ten, always the same."""
    words = []
    for i in range(TEXT_WORDS):
        a, b, c, _ = philox((1, 0), (i % 700, 0, 0, 0) if i % 3 else (i, 1, 0, 0))
        letters = (a << 32) | b
        words.append("".join(chr(97 + (letters >> (5 * k)) % 26) for k in range(1 + c % 8)))
    return b"\n".join(" ".join(words[i : i + 10]).encode() for i in range(0, TEXT_WORDS, 10))


class Run:
    """An engine in training on the made-up text."""

    def __init__(self, config: RunConfig, engine: Engine) -> None:
        self.config = config
        self.engine = engine
        text = made_up_text()
        run_now(engine.load_corpus(text, text))

    def advance(self, steps: int) -> list[StepMetrics]:
        """Train for some steps and wait for them. Where an engine answers ahead, a block is asked for before the
        one before is read, as the training loop does."""
        metrics: list[StepMetrics] = []
        asked = 0
        while asked < steps:
            asked += run_now(self.engine.train(min(RING, steps - asked)))
            metrics += run_now(self.engine.read_metrics(1))
        return metrics + run_now(self.engine.read_metrics())


def step_flops(config: RunConfig) -> int:
    """Of one whole step, as the program counts them; the same figure whatever the engine."""
    text = config.model.ctx + 1
    return step_program(config, Memory(config, text, text)).flops() * config.train.grad_accum
