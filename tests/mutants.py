"""Would the tests notice? Breaks the sources in one place at a time, and sees that `make test` fails each time.

    python tests/mutants.py              all of them, about twenty minutes on two cores
    python tests/mutants.py lock layernorm   those whose names contain one of these words

A mutant names the tests that are to catch it, all of which `make test` runs: so it is caught there, too. The sources
are broken in a copy. Exits with 1 if a mutant survives.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
OPS = "tests/kernels/ops"


class Mutant(NamedTuple):
    name: str
    file: str  # in tinygpt/, or where that is not meant with a slash in front
    sound: str  # occurs there once
    broken: str
    tests: str


MUTANTS = [
    # --- gradients: a term, a factor, a sign is missing, in each of three languages
    Mutant(
        "layernorm.py: the mean's term",
        "kernels/layernorm.py",
        "(dn - through_mean - through_rstd)",
        "(dn - through_rstd)",
        f"{OPS}/test_layernorm.py",
    ),
    Mutant(
        "layernorm.cpp: the mean's term",
        "kernels/layernorm.cpp",
        "(dn - mean_dn - normal * mean_dn_n)",
        "(dn - 0 * mean_dn - normal * mean_dn_n)",
        f"{OPS}/test_layernorm.py",
    ),
    Mutant(
        "layernorm.wgsl: the mean's term",
        "kernels/layernorm_backward.wgsl",
        "(dn - dn_mean - ",
        "(dn - ",
        f"{OPS}/test_layernorm.py",
    ),
    Mutant(
        "rmsnorm.cpp: the norm's own gradient",
        "kernels/rmsnorm.cpp",
        "(dn - load(x + c, lanes) * rstd * mean_dn_n)",
        "(dn - 0 * load(x + c, lanes) * rstd * mean_dn_n)",
        f"{OPS}/test_rmsnorm.py",
    ),
    Mutant(
        "rmsnorm.wgsl: the residual's gradient",
        "kernels/rmsnorm_backward.wgsl",
        "d += dresidual[first + i];",
        "",
        f"{OPS}/test_rmsnorm.py",
    ),
    Mutant(
        "qk_norm.wgsl: the norm's own gradient",
        "kernels/qk_norm_backward.wgsl",
        "(d - y[first + i] * mean)",
        "d",
        f"{OPS}/test_qk_norm.py",
    ),
    Mutant(
        "swiglu.cpp: the gate's slope",
        "kernels/swiglu.cpp",
        "fma(silu, s.rest, s.value)",
        "s.value",
        f"{OPS}/test_swiglu.py",
    ),
    Mutant(
        "swiglu.wgsl: the gate's slope",
        "kernels/swiglu.wgsl",
        "(s.value + g * s.value * s.rest)",
        "s.value",
        f"{OPS}/test_swiglu.py",
    ),
    Mutant(
        "softcap.cpp: the slope's square",
        "kernels/softcap.cpp",
        "(4.0f * e / (sum * sum))",
        "(4.0f * e / sum)",
        f"{OPS}/test_softcap.py",
    ),
    Mutant(
        "cross_entropy.py: smoothing at the target",
        "kernels/cross_entropy.py",
        "gradient[rows, targets] -= 1 - smoothing",
        "gradient[rows, targets] -= 1",
        f"{OPS}/test_cross_entropy.py",
    ),
    Mutant(
        "cross_entropy.cpp: the loss is of a mean",
        "kernels/cross_entropy.cpp",
        "1.0f / ((float)a.count * sum)",
        "1.0f / sum",
        f"{OPS}/test_cross_entropy.py",
    ),
    Mutant(
        "cross_entropy.wgsl: smoothing",
        "kernels/cross_entropy.wgsl",
        "wanted * (1.0 - SMOOTHING) + SMOOTHING / f32(V)",
        "wanted * (1.0 - SMOOTHING)",
        f"{OPS}/test_cross_entropy.py",
    ),
    Mutant(
        "attention.cpp: the softmax's own gradient",
        "kernels/attention.cpp",
        "p * (load(dp_at) - row_delta)",
        "p * (load(dp_at) - 0 * row_delta)",
        f"{OPS}/test_attention.py",
    ),
    Mutant(
        "attention.wgsl: the softmax's own gradient, heads of any size",
        "kernels/attention_backward_plain.wgsl",
        "return dp - delta;",
        "return dp;",
        f"{OPS}/test_attention.py",
    ),
    Mutant(
        "attention.cpp: the scores' scale",
        "kernels/attention.cpp",
        "to_columns(q, row, queries, D, scale * LOG2_E, q_columns, BLOCK);\n      to_columns(dy",
        "to_columns(q, row, queries, D, LOG2_E, q_columns, BLOCK);\n      to_columns(dy",
        f"{OPS}/test_attention.py",
    ),
    Mutant(
        "rotary.cpp: back is forth",
        "kernels/rotary.cpp",
        "a.inverse ? -1.0f : 1.0f",
        "1.0f",
        f"{OPS}/test_rotary.py",
    ),
    Mutant("rotary.wgsl: back is forth", "kernels/rotary.wgsl", "s = -s;", "", f"{OPS}/test_rotary.py"),
    Mutant(
        "embed.cpp: = for +=",
        "kernels/embed.cpp",
        "bool first = n < a.T && !a.accumulate;",
        "bool first = n < a.T;",
        f"{OPS}/test_embed.py",
    ),
    Mutant(
        "embed.wgsl: the tied head's gradient",
        "kernels/embed_backward.wgsl",
        "if (ACCUMULATE || TIED) {",
        "if (ACCUMULATE) {",
        f"{OPS}/test_embed.py",
    ),
    Mutant(
        "linear.wgsl: the activation's slope",
        "kernels/linear_backward.wgsl",
        "result *= slope[at];",
        "result *= 1.0 + 0.0 * slope[at];",
        f"{OPS}/test_linear.py",
    ),
    Mutant(
        "dropout.cpp: what is kept is not scaled up",
        "kernels/dropout.cpp",
        "1.0f / (1.0f - a.rate)",
        "1.0f",
        f"{OPS}/test_dropout.py",
    ),
    # --- optimizers
    Mutant(
        "adamw.cpp: no weight decay",
        "kernels/adamw.cpp",
        "decayed_end, 1.0f - rates[2]",
        "decayed_end, 1.0f",
        f"{OPS}/test_adamw.py",
    ),
    Mutant(
        "adamw.wgsl: gradients are not clipped",
        "kernels/update.wgsl",
        "return g * norm[1];",
        "return g;",
        f"{OPS}/test_adamw.py",
    ),
    Mutant(
        "the learning rate's warm-up begins a step late",
        "core/optimizers/schedule.py",
        "return train.lr * step / train.warmup",
        "return train.lr * (step - 1) / train.warmup",
        "tests/core/test_trainer.py tests/core/test_config.py tests/engines/test_optimizers.py",
    ),
    # --- threads, random numbers, memory
    Mutant(
        "layernorm.cpp: no barrier before the pieces are added",
        "kernels/layernorm.cpp",
        "  team.meet();\n",
        "",
        f"{OPS}/test_layernorm.py",
    ),
    Mutant(
        "philox.h: a round less",
        "kernels/philox.h",
        "round < 10",
        "round < 9",
        f"{OPS}/test_init.py {OPS}/test_windows.py {OPS}/test_dropout.py",
    ),
    Mutant(
        "memory plan: a tensor dies an op early",
        "core/plan/memory.py",
        "by_name[tensor.name].last = index",
        "by_name[tensor.name].last = max(by_name[tensor.name].first, index - 1)",
        "tests/core/test_program.py tests/engines/test_spec_engine.py tests/kernels/test_program_cpp.py",
    ),
    # --- the model
    Mutant(
        "parameters: keys before queries",
        "core/models/gpt_anatomy.py",
        '(("q_proj", C), ("k_proj", model.kv_width), ("v_proj", model.kv_width))',
        '(("k_proj", model.kv_width), ("q_proj", C), ("v_proj", model.kv_width))',
        "tests/formats tests/reference/test_torch_model.py tests/engines/test_options.py",
    ),
    Mutant(
        "decode: a byte's key goes to another layer's cache",
        "core/models/gpt.py",
        'k, v, position = p.memory.state[f"cache_k.{i}"]',
        'k, v, position = p.memory.state["cache_k.0"]',
        "tests/engines/test_options.py",
    ),
    Mutant(
        "backward: the residual stream's gradient is left out",
        "core/models/gpt.py",
        'return p.add(dx_mlp, dx_out, block + "dx_mid")',
        "return dx_mlp",
        "tests/engines/test_options.py",
    ),
    Mutant(
        "fuse: an activation's slope is lost on the way back",
        "core/passes/fuse.py",
        "self.ops[writer] = with_tensors(self.op(writer), slope=slope)",
        "self.ops[writer] = self.op(writer)",
        "tests/engines/test_options.py",
    ),
    Mutant(
        "adapters: alpha is not divided by the rank",
        "core/config.py",
        "return self.alpha / self.rank",
        "return self.alpha",
        "tests/reference/test_lora.py tests/reference/test_lora_training.py",
    ),
    Mutant(
        "top_p: a byte too few",
        "core/write/sampler.py",
        "if reached >= goal:\n            return i + 1",
        "if reached >= goal:\n            return max(1, i)",
        "tests/core/test_sampler.py",
    ),
    # --- runs and files
    Mutant(
        "resume: the optimizer's moments begin anew",
        "engines/base.py",
        "state.slots[name] if state.slots else",
        "state.slots[name] * 0 if state.slots else",
        "tests/engines/test_conformance.py tests/cli/test_cli_resume.py",
    ),
    Mutant(
        "resume: a step is done twice",
        "core/engine/program_engine.py",
        'self.step = self.read = self.known = getattr(state, "step", 0)',
        'self.step = self.read = self.known = max(0, getattr(state, "step", 0) - 1)',
        "tests/engines/test_conformance.py tests/cli/test_cli_resume.py",
    ),
    Mutant(
        "a run folder's lock keeps nobody out",
        "disk/locks.py",
        "lock.acquire(timeout=0)",
        "pass",
        "tests/cli/test_cli_killed.py",
    ),
    Mutant(
        "a damaged file is loaded",
        "store/formats/tinygpt_file.py",
        "if front.sha256 and front.sha256 != digest:",
        "if False:",
        "tests/formats",
    ),
    Mutant(
        "the original's matrices stay transposed",
        "core/file/front.py",
        "pieces_of(order, arrays, dtype, layout != OUT_IN)",
        "pieces_of(order, arrays, dtype, layout == IN_OUT)",
        "tests/formats",
    ),
    Mutant(
        "a file is not synced before it is renamed",
        "disk/atomic.py",
        "        sync(partial)\n",
        "",
        "tests/test_runs.py",
    ),
    Mutant(
        "a killed writer leaves a half-written file",
        "disk/atomic.py",
        "yield partial\n",
        "yield target\n        return\n",
        "tests/formats/test_atomic_save.py",
    ),
    Mutant(
        "Ctrl-C is heard at the end only",
        "cli/interrupts.py",
        "request.wanted, request.number = True, number",
        "request.wanted, request.number = False, number",
        "tests/cli/test_cli_resume.py",
    ),
    # --- proofs, serving, the page
    Mutant(
        "capsule: any loss is the same",
        "core/capsule/compare.py",
        "if float_bits(loss) != float_bits(stated):",
        "if False:",
        "tests/core tests/cli/test_cli_capsule.py",
    ),
    Mutant(
        "the browser's slots: the newest is overwritten",
        "core/tab/shelf.py",
        "(1 - order[0] if order else 0)",
        "(order[0] if order else 0)",
        "tests/core/test_shelf.py",
    ),
    Mutant(
        "ngrams.cpp: AdaGrad forgets a row's squares",
        "kernels/ngrams.cpp",
        "a.squares[row] += squares",
        "a.squares[row] = squares",
        f"{OPS}/test_ngrams.py",
    ),
    Mutant(
        "ngrams.py: the mean of a row's squares is their sum",
        "kernels/ngrams.py",
        "np.square(sums).mean(axis=1)",
        "np.square(sums).sum(axis=1)",
        f"{OPS}/test_ngrams.py",
    ),
    Mutant(
        "an epoch's windows come in the order of the text",
        "core/rng.py",
        "begin + ctx * permuted(place, count, words[:6])",
        "begin + ctx * place",
        "tests/core tests/engines/test_optimizers.py",
    ),
    Mutant(
        "a frame of the film that a stop came into is left out",
        "core/train/trainer.py",
        "        if self.frame_due():  # the first one, or one that a stop came into\n",
        "        if self.progress.step == 0:\n",
        "tests/core/test_trainer.py",
    ),
    Mutant(
        "a task's question is read without a line break before it",
        "core/tasks/__init__.py",
        "END.encode() + prompt if",
        "prompt if",
        "tests/bundled/test_bundled.py",
    ),
    Mutant(
        "a lab's kernel may write past a tensor's end",
        "labs/wgsl/check.py",
        'row["right"] = row["right"] and untouched',
        'row["right"] = row["right"]',
        "tests/labs/test_write_kernels.py",
    ),
    Mutant(
        "a lab's keys have their largest score among the first",
        "labs/wgsl/products.py",
        "normal[row, C : 2 * C] + 3.0",
        "normal[row, C : 2 * C] - 3.0",
        "tests/labs/test_write_kernels.py",
    ),
]


def main(words: list[str]) -> int:
    chosen = [mutant for mutant in MUTANTS if not words or any(word in mutant.name for word in words)]
    survivors = []
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copy = copied(Path(folder))
        for mutant in chosen:
            began = time.monotonic()
            caught = caught_by(mutant, copy)
            print(f"{time.monotonic() - began:6.1f} s  {mutant.name}: {caught or 'SURVIVED'}", flush=True)
            if not caught:
                survivors.append(mutant.name)
    print(f"{len(chosen) - len(survivors)} of {len(chosen)} mutants were caught")
    return bool(survivors)


def copied(folder: Path) -> Path:
    """All that git tracks, as it is now; what was installed is shared."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    for name in listed.decode().split("\0")[:-1]:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    (folder / ".venv").symlink_to(ROOT / ".venv")
    (folder / "web" / "node_modules").symlink_to(ROOT / "web" / "node_modules")
    return folder


def file_of(mutant: Mutant, root: Path) -> Path:
    return root / mutant.file.removeprefix("/") if mutant.file.startswith("/") else root / "tinygpt" / mutant.file


def caught_by(mutant: Mutant, copy: Path) -> str:
    """The first test that fails; "" where none does."""
    file = file_of(mutant, copy)
    whole = file.read_text(encoding="utf-8")
    if whole.count(mutant.sound) != 1:
        sys.exit(f"{mutant.name}: the text to break occurs {whole.count(mutant.sound)} times in {file}; update it")
    file.write_text(whole.replace(mutant.sound, mutant.broken), encoding="utf-8")
    try:
        command = [sys.executable, "-m", "pytest", "-n", "2", "-x", "-m", "not slow", "--tb=no", "-rfE"]
        environment = {**os.environ, "PYTHONPATH": str(copy)}
        ran = subprocess.run(
            [*command, *mutant.tests.split()], cwd=copy, env=environment, capture_output=True, text=True
        )
    finally:
        file.write_text(whole, encoding="utf-8")
    failed = [line for line in ran.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return failed[0].split(" - ")[0] if ran.returncode in (1, 2) and failed else ""  # 2: -x ended it


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
