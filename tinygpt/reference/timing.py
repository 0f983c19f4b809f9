"""Milliseconds per training step, and whether the fast modes train alike.

    python -m tinygpt.reference.timing --presets small,huge --modes eager-tf32,graph-tf32,graph-bf16

A mode is `how-precision`: eager, graph (compiled; on CUDA the whole step is one CUDA graph) or autotune (the same
with torch.compile's max-autotune), with float32, tf32 or bf16. A mode that fails says why; the rest go on.
"""

from __future__ import annotations

import argparse
import statistics
import time
import traceback
from pathlib import Path

from tinygpt.core.config import RunConfig
from tinygpt.core.engine.contract import run_now
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.presets import preset
from tinygpt.reference.engine import TorchEngine

COMPARED_STEPS = 30
CHUNK = 20  # steps between two readings of the metrics, as in a training on a GPU


def corpus() -> bytes:
    """Some real text: this package's own source."""
    return b"".join(path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py")))


def start(config: RunConfig, mode: str, device: str) -> TorchEngine:
    how, _, precision = mode.partition("-")
    if how not in ("eager", "graph", "autotune") or not precision:
        raise TinyGPTError(f"there is no mode '{mode}'; for example eager-float32, graph-tf32 or autotune-bf16")
    tuned = "max-autotune-no-cudagraphs" if how == "autotune" else None
    engine = TorchEngine(config, device=device, precision=precision, compile=how != "eager", compile_mode=tuned)
    run_now(engine.load_corpus(corpus(), corpus()))
    return engine


def losses(engine: TorchEngine, steps: int) -> list[float]:
    """Of so many further steps."""
    run_now(engine.train(steps))
    return [row.loss for row in run_now(engine.read_metrics())]


def milliseconds(engine: TorchEngine, chunks: int) -> float:
    """The median over chunks of steps, each ended by reading its metrics."""
    readings = []
    for _ in range(chunks):
        begin = time.perf_counter()
        losses(engine, CHUNK)
        readings.append((time.perf_counter() - begin) / CHUNK * 1000)
    return statistics.median(readings)


def largest_difference(a: list[float], b: list[float] | None) -> str:
    return f"{max(abs(x - y) for x, y in zip(a, b, strict=True)):.2e}" if b else "-"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--presets", default="small,medium,large,xl,huge", help="comma-separated")
    parser.add_argument("--modes", default="eager-tf32,graph-tf32,graph-bf16", help="comma-separated")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--chunks", type=int, default=10, help=f"readings of {CHUNK} steps to take the median of")
    options = parser.parse_args()

    print(f"{'preset':10} {'mode':16} {'ms/step':>8} {'first step':>11} {'vs its eager':>13} {'vs float32':>11}")
    for name in options.presets.split(","):
        config = preset(name)
        eager: dict[str, list[float] | None] = {}

        def eager_losses(mode: str, config: RunConfig = config, known: dict[str, list[float] | None] = eager) -> None:
            try:
                known[mode] = losses(start(config, mode, options.device), COMPARED_STEPS)
            except Exception as problem:
                known[mode] = None
                print(f"  no losses to compare with from {mode}: {problem}", flush=True)

        for mode in options.modes.split(","):
            same = "eager-" + mode.partition("-")[2]
            for baseline in ("eager-float32", same):
                if baseline not in eager:
                    eager_losses(baseline)
            try:
                begin = time.perf_counter()
                engine = start(config, mode, options.device)
                curve = losses(engine, 1)
                first = time.perf_counter() - begin
                curve += losses(engine, COMPARED_STEPS - 1)
                median = milliseconds(engine, options.chunks)
                print(
                    f"{name:10} {mode:16} {median:8.3f} {first:9.1f} s "
                    f"{largest_difference(curve, eager[same]):>13} "
                    f"{largest_difference(curve, eager['eager-float32']):>11}  {engine.describe()}",
                    flush=True,
                )
            except Exception:
                print(f"{name:10} {mode:16} failed:\n{traceback.format_exc()}", flush=True)


if __name__ == "__main__":
    main()
