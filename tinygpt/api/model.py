"""TinyGPT from Python: load, train, generate, stream, evaluate, look.

`import tinygpt` has all of it; docs/api.md shows how, and a test runs every line there.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self, overload

from tinygpt.api.weights import Weights, named
from tinygpt.core.config import RunConfig, SampleConfig
from tinygpt.core.engine.contract import Engine, run_now
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.models.parameters import parameter_count
from tinygpt.core.tasks import prompted
from tinygpt.core.text import StreamDecoder, decode
from tinygpt.core.train.progress import Progress
from tinygpt.core.write.desk import ROWS, Desk
from tinygpt.core.write.sampler import Text
from tinygpt.data import load_corpus
from tinygpt.data.corpus import Corpus
from tinygpt.engines.select import EngineChoice, make_engine
from tinygpt.jobs.beginning import kept_name
from tinygpt.jobs.given import bytes_of, encoded, text_of
from tinygpt.store.formats import Checkpoint, save_model
from tinygpt.store.formats.adapter_file import Adapter, load_adapter, merged, save_adapter
from tinygpt.store.formats.checkpoint import weights_alone
from tinygpt.store.naming import load_model, locate_adapter

if TYPE_CHECKING:
    from tinygpt.engines.base import FloatArray
    from tinygpt.engines.evaluation import Evaluation
    from tinygpt.inside.look import Look

USUAL = SampleConfig()


def stops_of(stop: str | Sequence[str]) -> tuple[bytes, ...]:
    several = stop if isinstance(stop, (list, tuple)) else [stop]
    return tuple(encoded(text, "stop", "a string or a list of strings") for text in several)


class Model:
    """A model that writes and judges texts. Its engine opens at first use; `close`, or the end of a `with`, gives its
    memory and threads back."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        choice: EngineChoice | None = None,
        adapter: Adapter | None = None,
        source: str = "",
    ) -> None:
        """`adapter` is what was merged into the checkpoint's weights, `source` where the model lies, if anywhere."""
        self.checkpoint = checkpoint
        self.adapter = adapter
        self.source = source
        self._choice = choice or EngineChoice()
        self._engine: Engine | None = None

    @property
    def config(self) -> RunConfig:
        return self.checkpoint.config

    @property
    def parameters(self) -> int:
        return parameter_count(self.config.model)

    @property
    def progress(self) -> Progress:
        """How far it was trained, with which losses."""
        return self.checkpoint.progress

    @property
    def weights(self) -> Weights:
        """All of them as one vector, in the order of docs/format.md, and each tensor by its name."""
        return named(self.config.model, self.checkpoint.state.w)

    @property
    def engine(self) -> Engine:
        if self._engine is None:
            self._engine = make_engine(self.config, self._choice, weights_alone(self.checkpoint).state)
        return self._engine

    def read_of(self, prompt: str) -> bytes:
        return prompted(self.checkpoint.text_name, encoded(prompt, "the prompt"))

    @overload
    def generate(
        self,
        prompt: str = ...,
        *,
        stop: str | Sequence[str] = ...,
        count: None = ...,
        tokens: int = ...,
        temperature: float = ...,
        top_k: int = ...,
        top_p: float = ...,
        seed: int = ...,
    ) -> str: ...

    @overload
    def generate(
        self,
        prompt: str = ...,
        *,
        stop: str | Sequence[str] = ...,
        count: int,
        tokens: int = ...,
        temperature: float = ...,
        top_k: int = ...,
        top_p: float = ...,
        seed: int = ...,
    ) -> list[str]: ...

    def generate(
        self,
        prompt: str = "\n",
        *,
        stop: str | Sequence[str] = (),
        count: int | None = None,
        tokens: int = USUAL.tokens,
        temperature: float = USUAL.temperature,
        top_k: int = USUAL.top_k,
        top_p: float = USUAL.top_p,
        seed: int = USUAL.seed,
    ) -> str | list[str]:
        """What follows the prompt: so many `tokens` (bytes), or up to the first text of `stop`.

        >>> model.generate("To be, ", tokens=80, temperature=0.7)

        A temperature of 0 is greedy; `top_k` and `top_p` draw from the most likely bytes only. With a `count` it is a
        list of so many texts, each with the next seed, which are written at once.
        """
        settings = SampleConfig(tokens=tokens, temperature=temperature, top_k=top_k, top_p=top_p, seed=seed)
        if count is None:
            return "".join(self.stream(prompt, stop=stop, **settings.as_dict()))
        if not isinstance(count, int) or count < 1:
            raise TinyGPTError(f"count is how many texts are wanted, at least 1, not {count!r}")
        desk = Desk(self.engine, min(count, ROWS))
        tickets = desk.join_all(count, self.read_of(prompt), settings, stops_of(stop))
        try:
            while not desk.empty():
                run_now(desk.more())
        finally:
            run_now(self.engine.make_room(1))
        for ticket in tickets:
            if ticket.problem:
                raise TinyGPTError(ticket.problem)
        return [decode(ticket.out) for ticket in tickets]

    def stream(
        self,
        prompt: str = "\n",
        *,
        stop: str | Sequence[str] = (),
        tokens: int = USUAL.tokens,
        temperature: float = USUAL.temperature,
        top_k: int = USUAL.top_k,
        top_p: float = USUAL.top_p,
        seed: int = USUAL.seed,
    ) -> Iterator[str]:
        """The same in whole characters, as they are made. Breaking out of the loop stops the model.

        >>> for piece in model.stream("To be, "):
        ...     print(piece, end="", flush=True)
        """
        settings = SampleConfig(tokens=tokens, temperature=temperature, top_k=top_k, top_p=top_p, seed=seed)
        text = Text(self.engine, self.config.model.ctx, self.read_of(prompt), settings, stops_of(stop))
        decoder = StreamDecoder()
        while made := run_now(text.more(time.perf_counter)):
            piece = decoder.push_all(made)
            if piece:
                yield piece
        if cut := decoder.finish():
            yield cut

    def next_bytes(self, prompt: str = "\n") -> FloatArray:
        """How likely each of the 256 bytes is behind the prompt."""
        import numpy as np

        read = self.read_of(prompt)[-self.config.model.ctx :] or b"\n"
        logits = np.array(run_now(self.engine.prefill(read)), np.float64)
        likely = np.exp(logits - logits.max())
        return np.asarray(likely / likely.sum(), np.float32)

    def evaluate(self, text: str | bytes) -> Evaluation:
        """Loss, perplexity and bits per byte on a text, and the loss of every byte of it."""
        from tinygpt.engines.evaluation import evaluate

        return run_now(evaluate(self.engine, bytes_of(text)))

    def scaled(self, parts: Mapping[str, float]) -> Model:
        """A copy some of whose parts count for more or less: {"blocks.1.head.0": 0} is without that head."""
        from tinygpt.inside.parts import scaled_model

        scale = [f"{name}={factor!r}" for name, factor in parts.items()]
        return Model(scaled_model(self.checkpoint, (), scale), self._choice)

    def save(self, path: str | os.PathLike[str], *, weights_only: bool = False, dtype: str = "float32") -> None:
        """As the name ends: .tinygpt, which the command line and the page open, or .safetensors, .gguf or .html.
        float16 and int8 hold weights alone.

        >>> model.save("fox.tinygpt", dtype="int8")
        """
        include_optimizer = not weights_only and dtype == "float32"
        save_model(path, self.checkpoint, include_optimizer=include_optimizer, dtype=dtype)

    def save_adapter(self, path: str | os.PathLike[str]) -> None:
        """The adapter alone, a small .safetensors file; the model that it is for is not in it."""
        if self.adapter is None:
            raise TinyGPTError("no adapter was trained for this model: train one with init_from and lora")
        save_adapter(path, self.adapter)

    def close(self) -> None:
        engine, self._engine = self._engine, None
        if engine is not None:
            run_now(engine.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        best = "" if self.progress.best_val is None else f", validation loss {self.progress.best_val:.4f}"
        size = f"{self.config.model.describe()}; {self.parameters:,} parameters"
        return f"<Model: {size}, step {self.progress.step:,}{best}>"

    def _repr_html_(self) -> str:
        """In a notebook: what it is, and what it last wrote."""
        facts = [("model", self.config.model.describe()), ("parameters", f"{self.parameters:,}")]
        facts.append(("trained for", f"{self.progress.step:,} steps"))
        if self.progress.best_val is not None:
            facts.append(("validation loss", f"{self.progress.best_val:.4f}"))
        rows = "".join(f"<tr><th>{name}</th><td>{escape(fact)}</td></tr>" for name, fact in facts)
        sample = f"<pre>{escape(self.progress.sample)}</pre>" if self.progress.sample else ""
        return f"<table>{rows}</table>{sample}"


def load(
    model: str | os.PathLike[str],
    *,
    adapter: str | os.PathLike[str] | None = None,
    engine: str = "auto",
    device: str = "auto",
    threads: int = 0,
) -> Model:
    """A run's folder (its best model), a file of ours or in safetensors, a Hugging Face folder, or a name of ours.

    `adapter` is a run of `tinygpt lora train`, or a file of it, to put on the model.
    """
    choice, checkpoint = EngineChoice(engine, device=device, threads=threads), load_model(model)
    if adapter is None:
        return Model(checkpoint, choice, source=kept_name(model))
    found = load_adapter(locate_adapter(adapter))
    return Model(merged(checkpoint, found, checkpoint), choice, found)


def look(
    model: Model | str | os.PathLike[str],
    text: str | bytes,
    *,
    window: int = 128,
    byte: int | None = None,
    tensors: Sequence[str] = (),
    origins: str | bytes | Corpus | None = None,
) -> Look:
    """What can be seen of a model while it reads a text; `tinygpt look` has the same by the same names.

    `data` of what comes back is plain, `save` writes it as a page, a picture or JSON. `origins` is a text, or a corpus,
    in which stretches of this one are looked for.
    """
    from tinygpt.inside.look import look_into
    from tinygpt.inside.origins import Source, as_data, origins_of

    seen = model if isinstance(model, Model) else load(model)
    name = "" if isinstance(model, Model) else os.fspath(model)
    read = bytes_of(text)
    found = look_into(seen.checkpoint, read, name=name, window=window, byte=byte, tensors=tensors, choice=seen._choice)
    if origins is not None:
        learned = origins if isinstance(origins, Corpus) else text_of(origins)
        train_text, val_text = learned.split(seen.config.train.val_fraction)
        source = Source(train_text)
        found.data["origins"] = as_data(origins_of(read, source, val_text), source, learned.name)
    return found


def corpus(name: str | None = None, *, file: str | os.PathLike[str] | None = None, budget: int | None = None) -> Corpus:
    """A text by name, as `tinygpt data list` shows them, or of a file; unless one is named, the default one."""
    return load_corpus(name, file=None if file is None else Path(file), budget=budget)
