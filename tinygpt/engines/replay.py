"""What all engines that replay a program have in common: feeding inputs, reading outputs, moving state.

A subclass says how a program is run and how its tensors are written and read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from tinygpt.core.config import RunConfig
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.feeding import adamw_rates
from tinygpt.core.models.gpt import Memory
from tinygpt.core.models.parameters import parameter_count, parameters
from tinygpt.core.ops.op import Tensor
from tinygpt.core.plan.cpu.lowering import Lowered
from tinygpt.core.rng import INIT
from tinygpt.engines.base import ByteArray, Engine, FloatArray, State, StepMetrics, padded_batches
from tinygpt.kernels.init import normal

Array = npt.NDArray[Any]


class ProgramEngine(Engine):
    """Keeps the corpus, feeds programs, and reads what they leave."""

    memory: Memory

    def __init__(self, config: RunConfig) -> None:
        super().__init__(config)
        self.train = self.val = np.zeros(0, dtype=np.uint8)
        self.step = 0
        self.metrics: list[StepMetrics] = []  # known, but not yet asked for
        self.cached = 0  # rows of the KV cache that are filled

    def run(self, mode: str) -> None:
        """Replay the program of that mode on the inputs as they stand."""
        raise NotImplementedError

    def input(self, tensor: Tensor) -> Array:
        """Where the next program finds an input, as a flat array to write to."""
        raise NotImplementedError

    def output(self, tensor: Tensor) -> Array:
        """What the programs run so far have left of an output, as a flat array."""
        raise NotImplementedError

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

    def load_windows(self, windows: ByteArray) -> None:
        """Write windows [batch, ctx + 1] to the inputs."""
        self.input(self.memory.tokens)[:] = windows[:, :-1].ravel()
        self.input(self.memory.targets)[:] = windows[:, 1:].ravel()

    def fed_programs(self, step: int, lr: float, offsets: list[int]) -> Iterator[str]:
        """The modes of a step, one after the other, the inputs of each written when it comes."""
        batch, batches = self.config.train.batch, self.config.train.grad_accum
        if len(offsets) != batch * batches:
            raise TinyGPTError(f"a step takes {batch * batches} windows, not {len(offsets)}")
        self.input(self.memory.rates)[:] = adamw_rates(self.config.train, step, lr)
        for i in range(batches):
            self.load_windows(self.cut_windows(self.train, offsets[i * batch : (i + 1) * batch]))
            if batches == 1:
                yield "train"
            else:
                yield "accumulate" if i else "gradient"
        if batches > 1:
            yield "update"

    async def eval_loss(self, offsets: list[int]) -> float:
        return float(np.mean(self.losses(self.cut_windows(self.val, offsets))))

    async def window_losses(self, windows: ByteArray) -> FloatArray:
        self.check_windows(windows)
        return self.losses(windows).astype(np.float32)

    def losses(self, windows: ByteArray) -> Array:
        """[B, T] for windows [B, T + 1], in float64.

        The program takes batch × ctx: what stands behind a window, or in rows that it does not fill, changes nothing.
        """
        batch, ctx = self.config.train.batch, self.config.model.ctx
        B, T = len(windows), windows.shape[1] - 1
        losses = np.empty((B, T))
        for rows, padded in padded_batches(windows, batch, ctx):
            self.load_windows(padded)
            self.run("eval")
            losses[rows] = self.output(self.memory.losses).reshape(batch, ctx)[: rows.stop - rows.start, :T]
        return losses

    def draw_weights(self, weights: Array) -> None:
        """Start values into a flat vector of zeros."""
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

    def in_file_order(self, flat: Array) -> Array:
        """A copy of a flat vector, without its padding."""
        values = np.empty(parameter_count(self.config.model), dtype=flat.dtype)
        for move in self.memory.layout.moves:
            values[move.offset : move.offset + move.size] = flat[move.start : move.start + move.size]
        return values

    def spread(self, values: FloatArray, flat: Array) -> None:
        """Write a vector in the file's order to a flat one."""
        for move in self.memory.layout.moves:
            flat[move.start : move.start + move.size] = values[move.offset : move.offset + move.size]

    async def import_state(self, state: State) -> None:
        self.load_state(state)

    def load_state(self, state: State) -> None:
        raise NotImplementedError

    async def prefill(self, tokens: bytes) -> list[float]:
        if not 1 <= len(tokens) <= self.config.model.ctx:
            raise TinyGPTError(f"a prompt must have 1 to {self.config.model.ctx} bytes, not {len(tokens)}")
        prompt = self.input(self.memory.prompt)
        prompt[:] = 0
        prompt[: len(tokens)] = np.frombuffer(tokens, dtype=np.uint8)
        return self.next_logits("prefill", len(tokens))

    async def decode(self, token: int) -> list[float]:
        if not 0 <= token < 256:
            raise TinyGPTError(f"a token must be a byte, 0 to 255, not {token}")
        if self.cached >= self.config.model.ctx:
            raise TinyGPTError(f"the context of {self.config.model.ctx} bytes is full; prefill again")
        self.input(self.memory.prompt)[0] = token
        return self.next_logits("decode", self.cached + 1)

    def next_logits(self, mode: str, cached: int) -> list[float]:
        self.input(self.memory.position)[0] = cached - 1
        self.run(mode)
        self.cached = cached
        return [float(logit) for logit in self.output(self.memory.next_logits)]


class ReplayEngine(ProgramEngine):
    """All tensors lie in one arena of this process."""

    def __init__(self, config: RunConfig) -> None:
        super().__init__(config)
        self.lowered = Lowered(config)
        self.memory = self.lowered.memory

    def view(self, tensor: Tensor) -> Array:
        """A persistent tensor's memory as a flat array that can be written to."""
        raise NotImplementedError

    def input(self, tensor: Tensor) -> Array:
        return self.view(tensor)

    def output(self, tensor: Tensor) -> Array:
        return self.view(tensor)

    def start(self, state: State | None) -> None:
        """Called by a subclass once its arena, all zeros, is there: it gets that state, or else start values."""
        if state is not None:
            self.load_state(state, fresh=True)
        else:
            self.draw_weights(self.view(self.memory.weights))

    async def train_step(self, step: int, lr: float, offsets: list[int]) -> None:
        for mode in self.fed_programs(step, lr, offsets):
            self.run(mode)
        self.step = step
        loss, norm = float(self.view(self.memory.loss)[0]), float(self.view(self.memory.norm)[0])
        self.metrics.append(StepMetrics(step, loss, norm))

    async def read_metrics(self) -> list[StepMetrics]:
        ready, self.metrics = self.metrics, []
        return ready

    async def export_state(self) -> State:
        flat = (self.memory.weights, self.memory.m, self.memory.v)
        w, m, v = (self.in_file_order(self.view(tensor)).astype(np.float32, copy=False) for tensor in flat)
        return State(self.step, w, m, v)

    def load_state(self, state: State, fresh: bool = False) -> None:
        """Into a fresh arena no zeros are written: memory that nobody touches costs nothing."""
        self.check_state(state)
        self.spread(state.w, self.view(self.memory.weights))
        for flat, moments in ((self.memory.m, state.m), (self.memory.v, state.v)):
            if moments is not None:
                self.spread(moments, self.view(flat))
            elif not fresh:
                self.view(flat)[:] = 0
        self.step = state.step
