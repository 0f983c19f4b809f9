"""The PyTorch engine: the model of `model.py` behind the contract of `engines.base`.

`whole_step` is a training step from top to bottom. It never waits for the device, so with
compile=True on CUDA it is captured as it stands in one CUDA graph, and a step is one replay.
"""

from __future__ import annotations

import copy
import functools
import math
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import clip_grad_norm_

from tinygpt.core.config import RunConfig, SampleConfig, TrainConfig
from tinygpt.core.engine.contract import Engine, StepMetrics
from tinygpt.core.engine.program_engine import OF_THE_LOOP
from tinygpt.core.errors import NOT_FINITE, NotFinite, TinyGPTError
from tinygpt.core.models.parameters import Parameter, parameters
from tinygpt.core.optimizers import LIVE, check_slots
from tinygpt.core.plan.cpu.lowering import MAX_THREADS
from tinygpt.core.rng import batch_offsets, eval_offsets, sample_uniform
from tinygpt.core.write.sampler import choose, require_finite
from tinygpt.engines.base import State, Tables
from tinygpt.engines.machine import check_threads, cores
from tinygpt.kernels.init import initial_weights
from tinygpt.reference.devices import pick_device, pick_precision
from tinygpt.reference.model import ByteModel, copy_flat, flatten, load_tables, make_model
from tinygpt.reference.modules import Cache, Drop, keep_all
from tinygpt.reference.optimizers import KEYS, Rates, make_optimizer, step_rows
from tinygpt.reference.processes import Alone, Processes

RING = 64  # steps whose metrics stay on the device until someone reads them
WARMUP_STEPS = 3  # before a capture: compile, autotune, let libraries allocate their workspaces
# Settings that a step reads from tensors, if at all.
UNCOMPILED = (*OF_THE_LOOP, "eval_batches", "lr", "schedule", "warmup", "min_lr", "matrix_lr", "ngram_lr", "seed")


class WrittenText:
    """What a text that is being written needs to go on."""

    def __init__(self, cache: Cache, settings: SampleConfig, first: int, stop: bytes) -> None:
        self.cache = cache
        self.settings = settings
        self.drawn = first  # the number of its next byte
        self.stop = stop
        self.last_byte = b""

    def draw(self, logits: list[float]) -> bytes:
        byte = choose(require_finite(logits), self.settings, sample_uniform(self.settings.seed, self.drawn))
        self.drawn += 1
        self.last_byte = bytes([byte])
        return self.last_byte


class TorchEngine(Engine):
    """One device per process. Master weights and what the optimizer keeps are float32 at every precision.

    It makes a model and trains all of it, unless it is given a `model` or the list of what is `trained`. Weights and
    moments are the same in all `processes` at all times, so any of them can export a state.
    """

    name = "torch"

    def __init__(
        self,
        config: RunConfig,
        state: State | None = None,
        *,
        model: ByteModel | None = None,
        trained: list[Parameter] | None = None,
        device: str = "auto",
        precision: str = "auto",
        compile: bool = False,
        compile_mode: str | None = None,
        threads: int | None = None,
        processes: Processes | None = None,
    ) -> None:
        """`compile_mode` is torch.compile's `mode`."""
        check_threads(threads, max(MAX_THREADS, cores()))
        self.config = config
        if threads is not None:
            torch.set_num_threads(threads)
        self.device = pick_device(device)
        self.threads = torch.get_num_threads() if self.device.type == "cpu" else None
        self.precision = pick_precision(precision, self.device)
        self.compile = compile
        self.processes = Alone() if processes is None else processes
        several = self.processes.count > 1
        # DDP overlaps its exchange with the backward pass by hooks, which run in Python: there is no graph of that.
        self.graphed = compile and self.device.type == "cuda" and not several
        # Several processes must ask for the same steps, whatever their clocks say.
        self.block = 20 if self.device.type == "cuda" else 1 if several else None

        train = config.train
        self.made_model = model is None
        if model is None:
            model = make_model(config.model, initial_weights(config.model, train.seed) if state is None else state.w)
        self.model = model.to(self.device)
        self.network = self.processes.parallel(self.model, self.device)  # what a step calls
        rows = parameters(config.model) if trained is None else trained
        self.trained = [self.model.get_parameter(row.name) for row in rows]  # in the order of a State's vectors
        # What is validated and written with, and kept: averages of the weights that steps change, or those themselves.
        self.kept_model = copy.deepcopy(self.model) if train.average else self.model
        self.tables: nn.Parameter | None = getattr(self.model, "tables", None)
        if self.tables is not None:
            self.kept_model.tables = self.tables  # which are not averaged
        trains_tables = self.tables is not None and self.tables.requires_grad
        self.squares = torch.zeros(len(self.tables), device=self.device) if trains_tables else None  # type: ignore[arg-type]
        self.kept: list[Tensor] = [self.kept_model.get_parameter(row.name) for row in rows]
        self.rates = Rates(self.device)
        iterate_in = torch.bfloat16 if self.precision == "bf16" else torch.float32
        self.optimizer = make_optimizer(self.trained, rows, train, self.rates, iterate_in)
        self.drop: Drop = self.dropped if train.dropout else keep_all
        self.train_loss = self.mean_loss
        if compile:
            torch.compiler.reset()  # a function compiled for several engines is silently no longer compiled after a few
            self.train_loss = torch.compile(self.mean_loss, dynamic=False, mode=compile_mode)

        # Everything a captured step reads or writes lives at one address for good.
        self.offsets = torch.zeros(shape_of_share(train, self.processes.count), dtype=torch.int64, device=self.device)
        self.reach = torch.arange(config.model.ctx + 1, device=self.device)
        self.outcome = torch.zeros(2, device=self.device)
        self.graph: torch.cuda.CUDAGraph | None = None

        self.train_text = self.val_text = byte_tensor(b"")
        self.step = 0
        self.ring = torch.zeros(RING, 2, device=self.device)  # (loss, gradient norm)
        self.in_ring: list[int] = []  # the step numbers of the ring's rows
        self.metrics: list[StepMetrics] = []
        self.validated = (0.0, 0)  # of the validation under way: the sum of windows' losses, and how many they are
        self.cache = Cache(config.model.layers)
        self.texts: list[WrittenText | None] = [None]
        if state is not None:
            self.restore(state)

    def describe(self) -> str:
        if self.device.type == "cuda":
            where = torch.cuda.get_device_name(self.device)
        elif self.device.type == "cpu":
            where = f"CPU ({torch.get_num_threads()} thread{'s' * (torch.get_num_threads() > 1)})"
        else:
            where = "Apple GPU"
        how = "one CUDA graph" if self.graphed else "compiled" if self.compile else "eager"
        count = self.processes.count
        shared = f", {count} processes" if count > 1 else ""
        return f"PyTorch {torch.__version__} on {where}, {self.precision}, {how}{shared}"

    async def load_corpus(self, train: bytes, val: bytes) -> None:
        self.train_text = byte_tensor(train).to(self.device)
        self.val_text = byte_tensor(val).to(self.device)
        self.graph = None  # it reads the old corpus

    async def train(self, steps: int) -> int:
        for _ in range(steps):
            self.train_step(self.step + 1)
        return steps

    def train_step(self, step: int) -> None:
        train, ctx = self.config.train, self.config.model.ctx
        rows = train.batch * train.grad_accum
        offsets = batch_offsets(train.seed, step, rows, len(self.train_text), ctx, train.windows)
        self.rates.fill(train, step)
        self.offsets.copy_(self.upload(self.processes.share(offsets)).view_as(self.offsets))
        self.seed_masks()
        if self.compile:
            self.compiled_step()
        else:
            self.outcome = self.whole_step()
        self.note(self.outcome)

    def note(self, outcome: Tensor) -> None:
        """A step is done: its loss and norm stay on the device until someone reads them."""
        self.step += 1
        self.ring[len(self.in_ring)].copy_(outcome)
        self.in_ring.append(self.step)
        if len(self.in_ring) == RING:
            self.empty_ring()

    def whole_step(self) -> Tensor:
        """Batch, forward, backward, clip, update; [loss, gradient norm] on the device, which may still be at work."""
        self.optimizer.zero_grad()
        if self.tables is not None:
            self.tables.grad = None
        micro_batches, smoothing = len(self.offsets), self.config.train.label_smoothing
        losses = []
        for i, rows in enumerate(self.offsets):
            with self.processes.accumulating(self.network, last=i == micro_batches - 1):
                with self.arithmetic():
                    loss = self.train_loss(self.network, self.train_text, rows, micro_batches, self.drop, smoothing)
                loss.backward()  # type: ignore[no-untyped-call]
            losses.append(loss.detach())
        norm = clip_grad_norm_(self.trained, self.config.train.grad_clip or math.inf, foreach=True)
        self.optimizer.step()
        if self.squares is not None:
            assert self.tables is not None
            step_rows(self.tables, self.squares, self.rates.ngram_lr)
        if self.config.train.average:
            self.average()
        return torch.stack([functools.reduce(torch.add, losses), norm])

    @torch.no_grad()
    def average(self) -> None:
        ways = list(torch._foreach_sub(list[Tensor](self.trained), self.kept))
        torch._foreach_mul_(ways, self.rates.average)
        torch._foreach_add_(self.kept, ways)

    def mean_loss(
        self,
        network: nn.Module,
        corpus: Tensor,
        rows: Tensor,
        parts: int = 1,
        drop: Drop = keep_all,
        smoothing: float = 0.0,
    ) -> Tensor:
        """Mean cross-entropy over the windows that start at `rows`, divided by how many such means make the step's."""
        windows = corpus[rows[:, None] + self.reach].long()  # [B, T + 1]
        loss: Tensor = network(windows[:, :-1], windows[:, 1:], drop=drop, smoothing=smoothing)[1]
        return loss / parts

    def dropped(self, x: Tensor, place: int) -> Tensor:
        """With masks of PyTorch's own generator: those of the other engines are other ones."""
        return F.dropout(x, self.config.train.dropout)

    def seed_masks(self) -> None:
        """A step's masks depend on nothing but the seed, the step and the process: a resumed run has the same."""
        train = self.config.train
        if train.dropout:
            torch.manual_seed(hash((train.seed, self.step + 1, self.processes.rank)))

    def compiled_step(self) -> None:
        try:
            if not self.graphed:
                self.outcome = self.whole_step()
                return
            if self.graph is None:
                self.capture()
                self.seed_masks()
        except torch._dynamo.exc.TorchDynamoException as problem:
            raise TinyGPTError(
                f"torch.compile does not work on this machine ({first_line(problem)}); train without --compile"
            ) from problem
        assert self.graph is not None
        self.graph.replay()

    def capture(self) -> None:
        """Record `whole_step` in a CUDA graph. The state is afterwards as it was: recording itself computes nothing.

        Gradients are None when the recording starts, so the graph writes them instead of adding to them, and it
        owns their memory. Parameters, slots, step counts, rates, offsets and the corpus stay where they are.
        """
        before = self.state()
        side = torch.cuda.Stream(self.device)  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(side):
            for _ in range(WARMUP_STEPS):
                self.whole_step()
        torch.cuda.current_stream(self.device).wait_stream(side)
        self.optimizer.zero_grad()
        self.restore(before)
        for group in self.optimizer.param_groups:
            if "capturable" in group:
                group["capturable"] = True  # a promise that fused AdamW keeps anyway: its step counts are on the device
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=side):
            self.outcome = self.whole_step()
        self.graph = graph

    async def read_metrics(self, leave: int = 0) -> list[StepMetrics]:
        self.empty_ring()
        metrics, self.metrics = self.metrics, []
        return metrics

    def empty_ring(self) -> None:
        rows = self.processes.mean(self.ring[: len(self.in_ring)]).tolist()
        for step, (loss, norm) in zip(self.in_ring, rows, strict=True):
            self.metrics.append(StepMetrics(step, loss, norm))
        self.in_ring = []

    async def train_fed(self, windows: list[bytes]) -> None:
        """A step on windows of ctx + 1 bytes that the host chose, a whole batch of them."""
        text, self.train_text = self.train_text, byte_tensor(b"".join(windows)).to(self.device)
        self.offsets.copy_(torch.arange(len(windows)).view_as(self.offsets) * (self.config.model.ctx + 1))
        self.rates.fill(self.config.train, self.step + 1)
        self.note(self.whole_step())
        self.train_text = text

    async def validate(self, first: int, batches: int) -> int:
        train = self.config.train
        offsets = eval_offsets(train.seed, train.batch * train.eval_batches, len(self.val_text), self.config.model.ctx)
        total, count = self.loss_sum(offsets[first * train.batch : (first + batches) * train.batch])
        before = self.validated if first else (0.0, 0)
        self.validated = (before[0] + total, before[1] + count)
        return batches

    async def read_validation(self) -> float:
        total, count = self.validated
        return total / count

    def loss_sum(self, offsets: list[int]) -> tuple[float, int]:
        """Over windows of which every process takes its share."""
        offsets = offsets[self.processes.rank :: self.processes.count]
        total = torch.zeros((), dtype=torch.float64, device="cpu" if self.device.type == "mps" else self.device)
        batch = self.config.train.batch
        with torch.no_grad(), self.arithmetic():
            for start in range(0, len(offsets), batch):
                rows = self.upload(offsets[start : start + batch])
                total += self.mean_loss(self.kept_model, self.val_text, rows).to(total.device) * len(rows)
        loss, count = self.processes.total(torch.tensor([total.item(), len(offsets)], dtype=torch.float64)).tolist()
        return loss, int(count)

    async def window_losses(self, windows: list[bytes]) -> list[list[float]]:
        ctx, batch = self.config.model.ctx, self.config.train.batch
        if len({len(window) for window in windows}) > 1 or not all(2 <= len(window) <= ctx + 1 for window in windows):
            raise TinyGPTError(f"windows must be rows of 2 to {ctx + 1} bytes, all of one length")
        losses: list[list[float]] = []
        for start in range(0, len(windows), batch):
            part = windows[start : start + batch]
            tokens = byte_tensor(b"".join(part)).view(len(part), -1).to(self.device).long()
            with torch.no_grad(), self.arithmetic():
                logits = self.kept_model(tokens[:, :-1])
            losses += F.cross_entropy(logits.float().transpose(1, 2), tokens[:, 1:], reduction="none").tolist()
        return losses

    async def likeliest_bytes(self, windows: list[bytes]) -> list[bytes]:
        ctx, batch = self.config.model.ctx, self.config.train.batch
        if not all(1 <= len(window) <= ctx for window in windows):
            raise TinyGPTError(f"windows must have 1 to {ctx} bytes")
        found: list[bytes] = []
        for start in range(0, len(windows), batch):
            part = windows[start : start + batch]
            longest = max(map(len, part))
            rows = b"".join(window.ljust(longest, b"\0") for window in part)
            with torch.no_grad(), self.arithmetic():
                logits = self.kept_model(byte_tensor(rows).view(len(part), -1).to(self.device).long()).float()
            best = torch.where(logits.isfinite().all(-1), logits.argmax(-1), -1).tolist()
            for window, row in zip(part, best, strict=True):
                if min(row[: len(window)]) < 0:
                    raise NotFinite(NOT_FINITE)
                found.append(bytes(row[: len(window)]))
        return found

    async def restart(self, config: RunConfig | None = None) -> bool:
        if not self.made_model:
            return False
        if config is not None:
            if self.config.replace(**{name: getattr(config.train, name) for name in UNCOMPILED}) != config:
                return False
            self.config = config
        self.in_ring, self.metrics = [], []
        self.restore(State(0, initial_weights(self.config.model, self.config.train.seed)))
        return True

    async def export_state(self) -> State:
        return self.state()

    async def import_state(self, state: State) -> None:
        self.restore(state)

    def state(self) -> State:
        slots = {name: flatten(self.moments(key)) for name, key in self.slot_keys.items()}
        if self.config.train.average:
            slots[LIVE] = flatten(self.trained)
        tables = None
        if self.tables is not None and self.squares is not None:
            tables = Tables(self.tables.detach().cpu().numpy().copy(), self.squares.cpu().numpy().copy())
        return State(self.step, flatten(self.kept), slots, tables)

    def restore(self, state: State) -> None:
        check_slots(self.config.train, list(state.slots))
        copy_flat(state.w, self.kept)
        copy_flat(state.slots.get(LIVE, state.w), self.trained)
        for name, key in self.slot_keys.items():
            copy_flat(state.slots[name] if state.slots else np.zeros_like(state.w), self.moments(key))
        if self.tables is not None and self.squares is not None:
            load_tables(self.tables, state.tables)
            squares = None if state.tables is None else state.tables.squares
            self.squares.copy_(torch.zeros_like(self.squares) if squares is None else torch.tensor(squares))
        self.set_step(state.step)

    @property
    def slot_keys(self) -> dict[str, str]:
        return KEYS[self.config.train.optimizer]

    def moments(self, key: str) -> list[Tensor]:
        return [self.optimizer.state[p][key] for p in self.trained if key in self.optimizer.state[p]]

    def set_step(self, step: int) -> None:
        """AdamW's bias correction counts the loop's steps."""
        self.step = step
        for count in self.moments("step"):
            count.fill_(step)

    async def make_room(self, texts: int) -> None:
        self.texts = [None] * texts

    async def begin_text(self, window: bytes, settings: SampleConfig, first: int, stop: bytes, row: int = 0) -> bytes:
        logits = await self.prefill(window)
        text = self.texts[row] = WrittenText(self.cache, settings, first, stop)
        return text.draw(logits)

    async def continue_text(self, count: int) -> bytes:
        text = self.texts[0]
        return b"" if text is None else self.more_of(text, count)

    async def continue_texts(self, count: int) -> list[bytes | None]:
        """One after the other."""
        made: list[bytes | None] = []
        for text in self.texts:
            try:
                made.append(b"" if text is None else self.more_of(text, count))
            except NotFinite:
                made.append(None)
        return made

    async def drop_text(self, row: int) -> None:
        self.texts[row] = None

    def more_of(self, text: WrittenText, count: int) -> bytes:
        made = b""
        self.cache = text.cache
        while len(made) < count and text.last_byte not in text.stop:
            made += text.draw(self.feed(text.last_byte))
        return made

    async def prefill(self, tokens: bytes) -> list[float]:
        self.cache = Cache(self.config.model.layers)
        return self.feed(tokens)

    async def decode(self, token: int) -> list[float]:
        return self.feed(bytes([token]))

    def feed(self, tokens: bytes) -> list[float]:
        with torch.no_grad(), self.arithmetic():
            logits = self.kept_model(byte_tensor(tokens).to(self.device).long()[None], cache=self.cache)
        row: list[float] = logits[0, -1].float().tolist()
        return row

    @contextmanager
    def arithmetic(self) -> Iterator[None]:
        """The chosen precision. TF32 is a switch of the whole process, so it is set anew for every use."""
        torch.set_float32_matmul_precision("high" if self.precision == "tf32" else "highest")
        # A cast that the cache kept from before a capture would not be part of the graph.
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.precision == "bf16", cache_enabled=False):
            yield

    def upload(self, offsets: list[int]) -> Tensor:
        """Without waiting for the device: pinned memory is not reused before its copy is done."""
        rows = torch.tensor(offsets, dtype=torch.int64)
        return (
            rows.pin_memory().to(self.device, non_blocking=True) if self.device.type == "cuda" else rows.to(self.device)
        )

    async def agree(self, flag: bool) -> bool:
        return self.processes.agree(flag)

    async def close(self) -> None:
        self.network = self.model  # what exchanges gradients holds the connections, which are about to be closed
        self.processes.close()


def byte_tensor(data: bytes) -> Tensor:
    """[len(data)] of uint8; frombuffer takes no empty buffer."""
    return torch.frombuffer(bytearray(data), dtype=torch.uint8) if data else torch.zeros(0, dtype=torch.uint8)


def first_line(problem: BaseException) -> str:
    return str(problem).strip().split("\n")[0]


def shape_of_share(train: TrainConfig, processes: int) -> tuple[int, int]:
    """Of a process's windows of a step: how many micro-batches, and how many windows in each."""
    windows = train.batch * train.grad_accum
    if windows % processes:
        raise TinyGPTError(
            f"{processes} processes cannot share a step of {windows} windows evenly: "
            f"set --batch to a multiple of {processes}"
        )
    share = windows // processes
    parts = next(parts for parts in range(1, share + 1) if share % parts == 0 and share // parts <= train.batch)
    return parts, share // parts
