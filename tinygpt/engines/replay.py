"""What all engines that replay a program have in common: feeding inputs, reading outputs, moving state.

A subclass says how its arena is made, how a tensor in it is seen as an array, and how a program is run.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tinygpt.core.config import RunConfig
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.feeding import adamw_rates
from tinygpt.core.lowering import Lowered
from tinygpt.core.ops import Tensor
from tinygpt.core.parameters import parameter_count, parameters
from tinygpt.core.rng import INIT
from tinygpt.engines.base import ByteArray, Engine, FloatArray, State, StepMetrics, padded_batches
from tinygpt.kernels.init import normal

Array = npt.NDArray[Any]


class WindowEngine(Engine):
    """An engine that keeps the corpus in this process and cuts its windows itself."""

    def __init__(self, config: RunConfig) -> None:
        super().__init__(config)
        self.train = self.val = np.zeros(0, dtype=np.uint8)

    async def load_corpus(self, train: bytes, val: bytes) -> None:
        self.train = np.frombuffer(train, dtype=np.uint8)
        self.val = np.frombuffer(val, dtype=np.uint8)

    def cut_windows(self, corpus: ByteArray, offsets: list[int]) -> ByteArray:
        """[len(offsets), ctx + 1]"""
        ctx = self.config.model.ctx
        if not all(0 <= offset < len(corpus) - ctx for offset in offsets):
            raise TinyGPTError(f"a window of {ctx + 1} bytes does not lie inside the corpus of {len(corpus)} bytes")
        rows = np.asarray(offsets)[:, None] + np.arange(ctx + 1)[None, :]
        return corpus[rows]

    def step_windows(self, offsets: list[int]) -> list[ByteArray]:
        """The windows of a step, batch by batch."""
        batch, batches = self.config.train.batch, self.config.train.grad_accum
        if len(offsets) != batch * batches:
            raise TinyGPTError(f"a step takes {batch * batches} windows, not {len(offsets)}")
        return [self.cut_windows(self.train, offsets[i * batch : (i + 1) * batch]) for i in range(batches)]

    def check_prompt(self, tokens: bytes) -> None:
        if not 1 <= len(tokens) <= self.config.model.ctx:
            raise TinyGPTError(f"a prompt must have 1 to {self.config.model.ctx} bytes, not {len(tokens)}")

    def check_token(self, token: int, cached: int) -> None:
        if not 0 <= token < 256:
            raise TinyGPTError(f"a token must be a byte, 0 to 255, not {token}")
        if cached >= self.config.model.ctx:
            raise TinyGPTError(f"the context of {self.config.model.ctx} bytes is full; prefill again")


class ReplayEngine(WindowEngine):
    def __init__(self, config: RunConfig) -> None:
        super().__init__(config)
        self.lowered = Lowered(config)
        self.memory = self.lowered.memory
        self.step = 0
        self.metrics: list[StepMetrics] = []
        self.cached = 0  # rows of the KV cache that are filled

    def run(self, mode: str) -> None:
        """Replay the program of that mode to its end."""
        raise NotImplementedError

    def view(self, tensor: Tensor) -> Array:
        """A persistent tensor's memory as a flat array that can be written to."""
        raise NotImplementedError

    def start(self, state: State | None) -> None:
        """Called by a subclass once its arena, all zeros, is there: it gets that state, or else start values."""
        if state is not None:
            self.load_state(state, fresh=True)
            return
        weights = self.view(self.memory.weights)
        starts = {move.name: move.start for move in self.memory.layout.moves}
        for index, parameter in enumerate(parameters(self.config.model)):
            start = starts[parameter.name]
            there = weights[start : start + parameter.size]
            if parameter.std:
                self.draw(there, index, parameter.std)
            else:
                there[:] = parameter.fill

    def draw(self, there: Array, index: int, std: float) -> None:
        """Start values of the parameter of that index."""
        there[:] = normal(self.config.train.seed, INIT, index, there.size, std)

    def put(self, flat: Tensor, values: FloatArray) -> None:
        """Write a vector in the file's order to a flat tensor of the arena."""
        there = self.view(flat)
        for move in self.memory.layout.moves:
            there[move.start : move.start + move.size] = values[move.offset : move.offset + move.size]

    def take(self, flat: Tensor) -> Array:
        """A copy of a flat tensor in the file's order."""
        here = self.view(flat)
        values = np.empty(parameter_count(self.config.model), dtype=here.dtype)
        for move in self.memory.layout.moves:
            values[move.offset : move.offset + move.size] = here[move.start : move.start + move.size]
        return values

    def load_windows(self, windows: ByteArray) -> None:
        """Write windows [batch, ctx + 1] to the inputs."""
        self.view(self.memory.tokens)[:] = windows[:, :-1].ravel()
        self.view(self.memory.targets)[:] = windows[:, 1:].ravel()

    def load_rates(self, step: int, lr: float) -> None:
        self.view(self.memory.rates)[:] = adamw_rates(self.config.train, step, lr)

    async def train_step(self, step: int, lr: float, offsets: list[int]) -> None:
        batches = self.step_windows(offsets)
        self.load_rates(step, lr)
        for i, windows in enumerate(batches):
            self.load_windows(windows)
            if len(batches) == 1:
                self.run("train")
            else:
                self.run("accumulate" if i else "gradient")
        if len(batches) > 1:
            self.run("update")
        self.step = step
        loss, norm = float(self.view(self.memory.loss)[0]), float(self.view(self.memory.norm)[0])
        self.metrics.append(StepMetrics(step, loss, norm))

    async def read_metrics(self) -> list[StepMetrics]:
        ready, self.metrics = self.metrics, []
        return ready

    async def eval_loss(self, offsets: list[int]) -> float:
        return float(np.mean(self.losses(self.cut_windows(self.val, offsets)), dtype=np.float64))

    async def window_losses(self, windows: ByteArray) -> FloatArray:
        self.check_windows(windows)
        return self.losses(windows).astype(np.float32, copy=False)

    def losses(self, windows: ByteArray) -> Array:
        """[B, T] for windows [B, T + 1], in the arena's precision.

        The program takes batch × ctx: what stands behind a window, or in rows that it does not fill, changes nothing.
        """
        batch, ctx = self.config.train.batch, self.config.model.ctx
        B, T = len(windows), windows.shape[1] - 1
        of_program = self.view(self.memory.losses).reshape(batch, ctx)
        losses = np.empty((B, T), dtype=of_program.dtype)
        for rows, padded in padded_batches(windows, batch, ctx):
            self.load_windows(padded)
            self.run("eval")
            losses[rows] = of_program[: rows.stop - rows.start, :T]
        return losses

    async def export_state(self) -> State:
        w, m, v = (self.take(t).astype(np.float32) for t in (self.memory.weights, self.memory.m, self.memory.v))
        return State(self.step, w, m, v)

    async def import_state(self, state: State) -> None:
        self.load_state(state, fresh=False)

    def load_state(self, state: State, fresh: bool) -> None:
        """Into a fresh arena no zeros are written: memory that nobody touches costs nothing."""
        count = parameter_count(self.config.model)
        if state.w.size != count:
            raise TinyGPTError(f"the state has {state.w.size:,} parameters, but this model has {count:,}")
        self.put(self.memory.weights, state.w)
        for flat, moments in ((self.memory.m, state.m), (self.memory.v, state.v)):
            if moments is not None:
                self.put(flat, moments)
            elif not fresh:
                self.view(flat)[:] = 0
        self.step = state.step

    async def prefill(self, tokens: bytes) -> list[float]:
        self.check_prompt(tokens)
        prompt = self.view(self.memory.prompt)
        prompt[:] = 0
        prompt[: len(tokens)] = np.frombuffer(tokens, dtype=np.uint8)
        return self.next_logits("prefill", len(tokens))

    async def decode(self, token: int) -> list[float]:
        self.check_token(token, self.cached)
        self.view(self.memory.prompt)[0] = token
        return self.next_logits("decode", self.cached + 1)

    def next_logits(self, mode: str, cached: int) -> list[float]:
        self.view(self.memory.position)[0] = cached - 1
        self.run(mode)
        self.cached = cached
        return [float(logit) for logit in self.view(self.memory.next_logits)]
