"""What the engines in another process have in common: the tab's own players, driven through a `Runner` so that bench,
parity and tests see an engine like any other. web/src/engine/runner.ts is the other side."""

from __future__ import annotations

from typing import Any

import numpy as np

from tinygpt.core.config import RunConfig
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.feeding import adamw_rates
from tinygpt.core.models.parameters import parameter_count
from tinygpt.engines.base import ByteArray, Engine, FloatArray, State, StepMetrics, padded_batches
from tinygpt.engines.runner import Runner

CHUNK = 2**24  # floats of a state that travel at once


class DrivenEngine(Engine):
    """A subclass opens the engine that the runner is to hold, and says where its tensors lie (`places`)."""

    places: dict[str, Any]

    def __init__(self, config: RunConfig, runner: Runner, most_steps: int, flops_together: float) -> None:
        """Steps travel to the runner together, as long as they are so small that the way would show."""
        super().__init__(config)
        self.runner = runner
        self.step = 0
        self.count = parameter_count(config.model)
        flops = 6 * self.count * config.train.batch * config.train.grad_accum * config.model.ctx
        self.metrics_every = max(1, min(most_steps, round(flops_together / flops)))
        self.waiting: list[list[object]] = []  # steps that the runner has not seen yet

    async def load_corpus(self, train: bytes, val: bytes) -> None:
        self.runner.ask("corpus", train + val, train=len(train))

    async def train_step(self, step: int, lr: float, offsets: list[int]) -> None:
        self.waiting.append([step, adamw_rates(self.config.train, step, lr), offsets])
        self.step = step

    async def read_metrics(self) -> list[StepMetrics]:
        if not self.waiting:
            return []
        steps, self.waiting = self.waiting, []
        _, numbers = self.runner.ask("steps", steps=steps)
        rows = np.frombuffer(numbers, dtype="<f8").reshape(-1, 3).tolist()
        return [StepMetrics(int(step), loss, norm) for step, loss, norm in rows]

    def require_read(self) -> None:
        """The loop reads the metrics before it evaluates, samples or saves."""
        if self.waiting:
            raise TinyGPTError("read the metrics of the steps under way first")

    async def eval_loss(self, offsets: list[int]) -> float:
        self.require_read()
        answer, _ = self.runner.ask("eval", offsets=offsets)
        return float(answer["loss"])

    async def window_losses(self, windows: ByteArray) -> FloatArray:
        self.require_read()
        self.check_windows(windows)
        batch, ctx = self.config.train.batch, self.config.model.ctx
        losses = np.empty((len(windows), windows.shape[1] - 1), dtype=np.float32)
        for rows, padded in padded_batches(windows, batch, ctx):
            self.runner.ask("write", padded[:, :-1].astype("<i4").tobytes(), place=self.places["tokens"])
            self.runner.ask("write", padded[:, 1:].astype("<i4").tobytes(), place=self.places["targets"])
            self.runner.ask("run", modes=["eval"])
            _, raw = self.runner.ask("read", place=self.places["losses"], size=batch * ctx)
            of_program = np.frombuffer(raw, dtype="<f4").reshape(batch, ctx)
            losses[rows] = of_program[: rows.stop - rows.start, : losses.shape[1]]
        return losses

    async def export_state(self) -> State:
        self.require_read()
        return State(self.step, *(self.take(name) for name in ("weights", "m", "v")))

    def take(self, name: str) -> FloatArray:
        values = np.empty(self.count, dtype=np.float32)
        for start in range(0, self.count, CHUNK):
            size = min(CHUNK, self.count - start)
            _, raw = self.runner.ask("take", name=name, start=start, size=size)
            values[start : start + size] = np.frombuffer(raw, dtype="<f4")
        return values

    async def import_state(self, state: State) -> None:
        self.require_read()
        self.set_state(state)

    def set_state(self, state: State) -> None:
        self.check_state(state)
        for name, values in (("weights", state.w), ("m", state.m), ("v", state.v)):
            whole = np.zeros(self.count, dtype="<f4") if values is None else values.astype("<f4", copy=False)
            for start in range(0, self.count, CHUNK):
                self.runner.ask("put", whole[start : start + CHUNK].tobytes(), name=name, start=start)
        self.runner.ask("set-step", step=state.step)
        self.step = state.step

    async def prefill(self, tokens: bytes) -> list[float]:
        self.require_read()
        return logits(self.runner.ask("prefill", tokens)[1])

    async def decode(self, token: int) -> list[float]:
        return logits(self.runner.ask("decode", token=token)[1])

    async def close(self) -> None:
        self.runner.close()


def logits(raw: bytes) -> list[float]:
    return [float(value) for value in np.frombuffer(raw, dtype="<f4")]
