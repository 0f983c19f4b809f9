"""Loss over the time of training: our recipes and nanoGPT's, on one text, one machine, one after the other.

python -m lab.quality                                  on a CPU: presets up to medium, nanoGPT's CPU recipe
python -m lab.quality --gpu                            presets up to huge, nanoGPT's GPU recipe
python -m lab.quality --file FILE --plot quality.png   the text's last tenth is held out

Every contestant validates on the same bytes, in windows of its own length. Seconds are those of its steps: compilers,
validations and samples are left out for all alike.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from rich.console import Console

from tinygpt.core.config import ModelConfig, RunConfig, TrainConfig
from tinygpt.core.presets import cut_short, preset
from tinygpt.data import load_corpus
from tinygpt.data.corpus import Corpus
from tinygpt.engines.select import EngineChoice
from tinygpt.sweeps.plan import Run
from tinygpt.sweeps.results import Result
from tinygpt.sweeps.running import Runner, Work

VALIDATIONS = 20
VALIDATED_BYTES = 65536

# nanoGPT's public settings for a megabyte of Shakespeare. Its vocabulary is the text's 65 characters; ours are bytes.
NANOGPT = {
    "lr": 1e-3,
    "schedule": "cosine",
    "warmup": 100,
    "min_lr": 1e-4,
    "beta2": 0.99,
    "weight_decay": 0.1,
    "grad_clip": 1.0,
    "biases": "off",
}
NANOGPT_CPU = {"layers": 4, "heads": 4, "d_model": 128, "ctx": 64, "batch": 12, "steps": 2000, "dropout": 0.0}
NANOGPT_GPU = {"layers": 6, "heads": 6, "d_model": 384, "ctx": 256, "batch": 64, "steps": 5000, "dropout": 0.2}


class Contestant(NamedTuple):
    name: str
    engine: EngineChoice
    config: RunConfig


def nanogpt(sizes: dict[str, float]) -> RunConfig:
    return RunConfig(ModelConfig(), TrainConfig()).replace(**NANOGPT, **sizes)


def on_a_cpu() -> list[Contestant]:
    native = EngineChoice("native")
    recipe = nanogpt(NANOGPT_CPU)
    return [
        Contestant("nanoGPT's for CPUs", EngineChoice("torch"), recipe),
        Contestant("nanoGPT's for CPUs", native, recipe),
        Contestant("classic small", native, preset("small", "classic")),
        Contestant("modern small, 300 steps", native, cut_short(preset("small", "modern"), {"steps": 300})),
        Contestant("modern small", native, preset("small", "modern")),
        Contestant("modern medium", native, preset("medium", "modern")),
    ]


def on_a_gpu() -> list[Contestant]:
    webgpu = EngineChoice("webgpu")
    return [
        Contestant("nanoGPT's for GPUs", EngineChoice("torch", device="cuda", precision="bf16"), nanogpt(NANOGPT_GPU)),
        Contestant("classic huge", webgpu, preset("huge", "classic")),
        *[Contestant(f"modern {name}", webgpu, preset(name, "modern")) for name in ("small", "large", "huge")],
    ]


def train(contestant: Contestant, train_text: bytes, val_text: bytes, seed: int) -> Result:
    config = contestant.config
    tokens = config.train.batch * config.model.ctx
    changes = {
        "eval_every": -(-config.train.steps // VALIDATIONS),
        "eval_batches": -(-VALIDATED_BYTES // tokens),
        "seed": seed,
    }
    runner = Runner(Work(contestant.engine, train_text, val_text))
    result = runner.run(Run(0, {}, config.replace(**changes)), lambda step: True)
    runner.close()
    assert result is not None  # nobody stops it
    return result


def seconds_to(result: Result, loss: float) -> float | None:
    """When a validation first came to that."""
    return next((seconds for _, seconds, seen in result.curve if seen <= loss), None)


def save_picture(path: Path, title: str, rows: Sequence[tuple[Contestant, Result]]) -> None:
    from tinygpt.plots import INK, LINES, blank, save

    figure, axes = blank(title, "seconds of training", "validation loss (nats per byte)")
    for i, (contestant, result) in enumerate(rows):
        seconds, losses = [row[1] for row in result.curve], [row[2] for row in result.curve]
        label = f"{contestant.name}, {contestant.engine.name}: {result.loss:.3f}"
        axes.plot(seconds, losses, color=LINES[i % len(LINES)], linewidth=2.0, marker=".", label=label)
    axes.set_xscale("log")
    axes.set_ylim(top=min(axes.get_ylim()[1], 2.8))
    axes.legend(frameon=False, labelcolor=INK, fontsize=9)
    save(figure, path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpu", action="store_true", help="larger models, with webgpu, and PyTorch on CUDA")
    parser.add_argument(
        "--only", nargs="+", default=[], metavar="WORDS", help="contestants whose names have these words"
    )
    parser.add_argument("--file", type=Path, help="another text than the default corpus; its last tenth is held out")
    parser.add_argument("--seed", type=int, default=TrainConfig().seed)
    parser.add_argument("--plot", type=Path, help="draw the losses over the time to this file")
    parser.add_argument("--json", type=Path, help="write all results to this file")
    asked = parser.parse_args()
    corpus = load_corpus() if asked.file is None else Corpus(asked.file.stem, asked.file.read_bytes(), str(asked.file))
    train_text, val_text = corpus.split(TrainConfig().val_fraction)
    out = Console(width=140)
    out.print(f"{corpus.name}: {len(train_text):,} bytes to train on, {len(val_text):,} held out\n")
    head = f"{'recipe':26}{'engine':8}{'parameters':>11}{'steps':>7}{'tokens':>12}{'seconds':>9}{'loss':>8}"
    out.print(f"{head}  seconds to {'its':>7} end")
    rows: list[tuple[Contestant, Result]] = []
    for contestant in on_a_gpu() if asked.gpu else on_a_cpu():
        if asked.only and not any(words in contestant.name for words in asked.only):
            continue
        result = train(contestant, train_text, val_text, asked.seed)
        rows.append((contestant, result))
        first = rows[0][1]
        reached = seconds_to(result, first.loss)
        ratio = "" if reached is None or result is first else f"{reached:10.1f}, 1/{first.seconds / reached:.1f}"
        out.print(
            f"{contestant.name:26}{contestant.engine.name:8}{result.parameters:11,}{result.steps:7,}{result.tokens:12,}"
            f"{result.seconds:9.1f}{result.loss:8.3f}  {ratio}"
        )
    out.print("\nThe last column: when it had come to where the first one ended, and what share of its time that was.")
    for words in dict.fromkeys(result.engine for _, result in rows):
        out.print(words)
    if asked.plot is not None:
        save_picture(asked.plot, f"loss over time, {corpus.name}", rows)
    if asked.json is not None:
        told = [{"name": contestant.name, **result.as_dict()} for contestant, result in rows]
        asked.json.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
