"""Looking inside a model: core's data for a text, with what NumPy adds, and the files it is written to."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tinygpt.core.config import RunConfig
from tinygpt.core.engine.contract import run_now
from tinygpt.core.engine.program_engine import ProgramEngine
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.look.inside import (
    direction_of,
    kept_weights,
    look_backward,
    look_forward,
    looked_config,
    rounded,
    stages_of,
    watched_run,
)
from tinygpt.core.look.watch import NO_PROGRAM, summary, tensors_of
from tinygpt.core.models.parameters import parameters
from tinygpt.core.models.programs import LOOKING
from tinygpt.core.names import chosen
from tinygpt.core.ops.op import Tensor
from tinygpt.engines.base import FloatArray, State
from tinygpt.engines.evaluation import evaluate
from tinygpt.engines.select import EngineChoice, available_engines, make_engine
from tinygpt.store.formats import Checkpoint
from tinygpt.store.formats.checkpoint import weights_alone
from tinygpt.store.runs import writing

WINDOW = 128  # bytes, the last ones of a text, that are looked into unless it is said otherwise
LONGEST = 1 << 20  # bytes of a text: a page has a mark for each


class Seen(NamedTuple):
    """A tensor of a program after it ran."""

    name: str
    values: FloatArray

    def as_data(self) -> dict[str, Any]:
        return {"name": self.name, "shape": list(self.values.shape), **summary(self.values.ravel().tolist())}


class Look:
    """What was seen. `data` is plain: docs/look.md says what is in it; `tensors` are those that were asked for."""

    def __init__(self, data: dict[str, Any], tensors: Sequence[Seen] = ()) -> None:
        self.data = data
        self.tensors = list(tensors)

    def __repr__(self) -> str:
        tensors = f", {len(self.tensors)} tensors" if self.tensors else ""
        return f"<Look at {len(self.data['text']):,} bytes{tensors}: save it as .html>"

    def _repr_html_(self) -> str:
        """In a notebook: the page that `save` writes, in a frame of its own."""
        from html import escape

        from tinygpt.inside.page import page_of

        return f'<iframe srcdoc="{escape(page_of(self))}" style="width: 100%; height: 40rem; border: 0"></iframe>'

    def save(self, path: str | Path) -> None:
        """As .html, one page that needs nothing else; as .json; as a picture (.png, .svg, .pdf); tensors as .npz."""
        path = Path(path)
        if path.suffix == ".html":
            from tinygpt.inside.page import page_of

            text = page_of(self)
        elif path.suffix == ".json":
            text = json.dumps({**self.data, "tensors": [seen.as_data() for seen in self.tensors]}, allow_nan=False)
        elif path.suffix == ".npz":
            with writing(path):
                np.savez_compressed(path, allow_pickle=False, **{seen.name: seen.values for seen in self.tensors})
            return
        else:
            from tinygpt.inside.pictures import save_picture

            save_picture(self, path)
            return
        with writing(path):
            path.write_text(text, encoding="utf-8")


def look_into(
    checkpoint: Checkpoint,
    text: bytes,
    *,
    name: str = "",
    window: int = WINDOW,
    byte: int | None = None,
    tensors: Sequence[str] = (),
    choice: EngineChoice | None = None,
) -> Look:
    """All that can be seen of a model while it reads a text: its losses, then of the last `window` bytes the rest.

    `byte` is the one whose direction in the residual stream is followed; unless said, the likeliest next one.
    """
    choice = program_choice(choice or EngineChoice())
    config = checkpoint.config
    if not 2 <= len(text) <= LONGEST:
        raise TinyGPTError(f"a text to look at must have 2 to {LONGEST:,} bytes, not {len(text):,}")
    if window < 2:
        raise TinyGPTError(f"at least 2 bytes must be looked into, not {window}")
    names = chosen(tensors, [tensor.name for tensor in tensors_of(looked_config(config, 2), LOOKING)], "tensor")
    shown = text[-min(window, config.model.ctx, len(text)) :]
    losses, likeliest = judged(checkpoint, text, shown, choice)
    byte = likeliest if byte is None else byte
    direction = direction_of(config.model, checkpoint.state.w, byte) if stages_of(config.model) else []
    with Opened(checkpoint, len(shown), choice) as engine:
        inside = run_now(look_forward(engine, shown, direction))
        seen = read_all(engine, "inspect", shown + b"\0", names)
    if len(shown) >= 2:  # a context of one byte has no next one
        with Opened(checkpoint, len(shown) - 1, choice) as engine:
            inside.update(run_now(look_backward(engine, shown)))
            seen += read_all(engine, "gradients", shown, [one for one in names if one not in {s.name for s in seen}])
    data = {
        "model": facts_of(checkpoint, name),
        "text": list(text),
        "first": len(text) - len(shown),
        "losses": [rounded(float(loss)) for loss in losses],
        "byte": byte,
        "inside": inside,
        "weights": weights_of(config, checkpoint.state.w, inside.get("weight_gradients", {})),
    }
    return Look(data, sorted(seen, key=lambda one: names.index(one.name)))


def program_choice(choice: EngineChoice) -> EngineChoice:
    """An engine that plays core's programs."""
    if choice.name == "auto":
        playing = [name for name in available_engines() if name != "torch"]
        return choice._replace(name=playing[0]) if playing else choice
    if choice.name == "torch":
        raise TinyGPTError(f"the torch engine {NO_PROGRAM}")
    return choice


class Opened:
    """An engine for a model that is looked into: it reads so many bytes."""

    def __init__(self, checkpoint: Checkpoint, length: int, choice: EngineChoice) -> None:
        model = checkpoint.config.model
        weights = np.concatenate([checkpoint.state.w[begin:end] for begin, end in kept_weights(model, length)])
        state = State(0, weights, tables=checkpoint.state.tables)
        self.engine = make_engine(looked_config(checkpoint.config, length), choice, state)

    def __enter__(self) -> ProgramEngine:
        if not isinstance(self.engine, ProgramEngine):
            raise TinyGPTError(f"the {self.engine.name} engine {NO_PROGRAM}")
        return self.engine

    def __exit__(self, *_: object) -> None:
        run_now(self.engine.close())


def judged(checkpoint: Checkpoint, text: bytes, shown: bytes, choice: EngineChoice) -> tuple[FloatArray, int]:
    """The loss of every byte but the first, and the likeliest byte behind the last."""
    engine = make_engine(checkpoint.config, choice, weights_alone(checkpoint).state)
    try:
        losses = run_now(evaluate(engine, text)).per_byte
        return losses, int(np.argmax(run_now(engine.prefill(shown))))
    finally:
        run_now(engine.close())


def read_all(engine: ProgramEngine, mode: str, window: bytes, names: Sequence[str]) -> list[Seen]:
    """Those of the tensors that this program has; weights and what the names stand for else are the other's."""
    own = {tensor.name: tensor for tensor in tensors_of(engine.config, [mode])}
    wanted = [name for name in names if name in own]
    if not wanted:
        return []
    values = run_now(watched_run(engine, mode, window, wanted))
    return [Seen(name, np.array(values[name], np.float32).reshape(own[name].shape)) for name in wanted]


def tensor_list(config: RunConfig, length: int | None = None) -> list[Tensor]:
    """Every tensor that can be looked at, with its shape for a text of that length."""
    return tensors_of(looked_config(config, length or config.model.ctx), LOOKING)


def facts_of(checkpoint: Checkpoint, name: str) -> dict[str, Any]:
    config, progress = checkpoint.config, checkpoint.progress
    return {
        "name": name,
        "shape": config.model.describe(),
        "layers": config.model.layers,
        "heads": config.model.heads,
        "ctx": config.model.ctx,
        "parameters": len(checkpoint.state.w),
        "steps": progress.step,
        "val_loss": progress.best_val,
    }


def weights_of(config: RunConfig, weights: FloatArray, gradients: dict[str, float]) -> list[dict[str, Any]]:
    """Of every parameter its norm, that of its gradient, and of a matrix its singular values."""
    found = []
    for row in parameters(config.model):
        values = weights[row.offset : row.offset + row.size].reshape(row.shape).astype(np.float64)
        singular: Any = singular_values(values) if len(row.shape) == 2 else []
        found.append(
            {
                "name": row.name,
                "shape": list(row.shape),
                "norm": rounded(float(np.linalg.norm(values))),
                "gradient": gradients.get(row.name),
                "singular": [rounded(float(value)) for value in singular],
            }
        )
    return found


def singular_values(matrix: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Largest first: roots of the eigenvalues of the smaller Gram matrix, many times faster than a decomposition of the
    whole, and exact to about 1e-8 of the largest."""
    wide = matrix if matrix.shape[0] < matrix.shape[1] else matrix.T
    values: npt.NDArray[np.float64] = np.sqrt(np.maximum(np.linalg.eigvalsh(wide @ wide.T)[::-1], 0.0))
    return values
