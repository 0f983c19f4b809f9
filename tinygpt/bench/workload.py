"""The same work for every engine: a text that needs no download, and the batches of the training loop."""

from __future__ import annotations

from tinygpt.core.config import RunConfig
from tinygpt.core.models.gpt import Memory, gradient_program
from tinygpt.core.rng import batch_offsets, philox
from tinygpt.core.trainer import learning_rate, run_now
from tinygpt.engines.base import Engine, StepMetrics

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
    """An engine in training on the made-up text, as the training loop would drive it."""

    def __init__(self, config: RunConfig, engine: Engine) -> None:
        self.config = config
        self.engine = engine
        self.text = made_up_text()
        self.step = 0
        run_now(engine.load_corpus(self.text, self.text))

    def advance(self, steps: int) -> list[StepMetrics]:
        """Train for some steps and wait for them."""
        metrics = []
        train, ctx = self.config.train, self.config.model.ctx
        rows = train.batch * train.grad_accum * self.engine.replicas
        for _ in range(steps):
            self.step += 1
            offsets = batch_offsets(train.seed, self.step, rows, len(self.text), ctx)
            run_now(self.engine.train_step(self.step, learning_rate(train, self.step), offsets))
            if self.step % self.engine.metrics_every == 0:
                metrics += run_now(self.engine.read_metrics())
        return metrics + run_now(self.engine.read_metrics())


def step_flops(config: RunConfig) -> int:
    """Of one whole step, as the program counts them; the same figure whatever the engine."""
    program = gradient_program(config, Memory(config), accumulate=0, update=True)
    return program.flops() * config.train.grad_accum
