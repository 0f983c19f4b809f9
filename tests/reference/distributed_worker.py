"""Run by torchrun in test_distributed.py: trains through the loop of core and writes what each process saw."""

import json
import os
import sys
from pathlib import Path

import numpy as np
import torch

from tinygpt.core.config import RunConfig
from tinygpt.core.engine.contract import run_now
from tinygpt.core.presets import preset
from tinygpt.core.train.host import Host
from tinygpt.core.train.trainer import Trainer
from tinygpt.reference.distributed import is_main_process, torch_engine

TEXT = bytes((7 * i + i * i // 5) % 251 for i in range(3000))
VAL = TEXT[:700]


STEP = {"batch": 3, "grad_accum": 4, "eval_batches": 5}  # 12 windows: 4 times 3, or of two processes twice 3 each


class Recorder(Host):
    def __init__(self, stop_at: int = 0) -> None:
        self.events: list[dict] = []
        self.stop_at = stop_at

    def now(self) -> float:
        return float(len(self.events))

    def emit(self, event) -> None:
        self.events.append(event)

    def should_stop(self) -> bool:
        return bool(self.stop_at) and self.events[-1].get("step", 0) >= self.stop_at

    def of(self, kind: str, key: str) -> list:
        return [event[key] for event in self.events if event["event"] == kind]


def small_run(**changes) -> RunConfig:
    base = preset("tiny").replace(layers=2, d_model=16, heads=2, ctx=9, steps=8, lr=3e-3, eval_every=4)
    return base.replace(**changes)


def run(config: RunConfig, stop_at: int = 0, keep: Path | None = None) -> dict:
    torch.set_num_threads(1)
    engine = torch_engine(config, device="cpu")
    run_now(engine.load_corpus(TEXT, VAL))
    host = Recorder(stop_at)
    reason = run_now(Trainer(config, engine, host, len(TEXT), len(VAL)).run())
    state = run_now(engine.export_state())
    run_now(engine.close())
    if keep:
        np.savez(keep, step=state.step, w=state.w, **state.slots)
    return {
        "reason": reason,
        "main": is_main_process(),
        "losses": host.of("step", "loss"),
        "norms": host.of("step", "grad_norm"),
        "evals": host.of("eval", "val_loss"),
        "samples": host.of("sample", "text"),
        "step": state.step,
        "w": state.w.tolist(),
    }


if __name__ == "__main__":
    rank = int(os.environ["RANK"])
    # Only process 1 is to stop, after the fifth step.
    result = run(small_run(**STEP), stop_at=5 if rank == 1 else 0, keep=Path(sys.argv[1], f"{rank}.npz"))
    Path(sys.argv[1], f"{rank}.json").write_text(json.dumps(result))
