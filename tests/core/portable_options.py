"""Prints the programs of models with options, as portable.py prints the rest of core."""

from bits import bits

from tinygpt.core import presets
from tinygpt.core.config import LoraConfig, RunConfig
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.models.adapters import trained_parameters
from tinygpt.core.models.programs import READING, all_modes
from tinygpt.core.ops.gpu import Device
from tinygpt.core.plan.cpu.lowering import Lowered
from tinygpt.core.plan.gpu.lowering import GpuLowered

MODERN = {"norm": "rmsnorm", "positions": "rotary", "qk_norm": "on", "activation": "relu2", "biases": "off"}
MODERN["logit_cap"] = 12.5
MODERN["norm_place"] = "post"
GATED = {"activation": "swiglu", "tied_head": "off", "positions": "none", "dropout": 0.2, "grad_accum": 2}
GATED["label_smoothing"] = 0.1
GATED["positions"] = "alibi"
GATED["kv_heads"] = 1
MUON = {"optimizer": "muon", "activation": "swiglu", "d_model": 30, "ns_steps": 7, "average": 0.3, "kv_heads": 1}

plain = {"kind": "bigram", "optimizer": "sgd", "average": 0.2}
recurrent = {"kind": "recurrent", "d_model": 30, "positions": "none"}
lora = LoraConfig(rank=3, targets="k_proj,fc_gate,fc_out")
for changes, adapters in ((MODERN, None), (GATED, None), (plain, None), (recurrent, None), (MUON, None), (GATED, lora)):
    run = presets.preset("tiny").replace(**changes)
    run = RunConfig(run.model, run.train, adapters)
    print(run.model.describe(), run.model.d_mlp)
    for row in trained_parameters(run):
        print(" ", row.name, bits(row.shape), row.offset, row.size, bits(row.std))
    modes = all_modes(run)
    modes.append("init")
    lowered = Lowered(run, modes, 999, 99)
    for mode in sorted(lowered.words):
        print(mode, lowered.plan.size, lowered.words[mode])
    if adapters is None:
        for dtype in ("int8", "float16"):
            compact = Lowered(run, READING, compact=dtype)
            for mode in sorted(compact.words):
                print(mode, compact.plan.size, compact.words[mode])
            print(compact.compact_places())
    playbook = GpuLowered(run, Device(), all_modes(run), 999, 99).playbook()
    for part in sorted(playbook):
        print(part, bits(playbook[part]))

for wrong in (
    {"norm": "batchnorm"},
    {"biases": False},
    {"d_model": 9, "positions": "rotary"},
    {"dropout": 1.0},
    {"logit_cap": 0.5},
    {"kv_heads": 2},
):
    try:
        presets.preset("tiny").replace(**wrong)
        print("accepted")
    except TinyGPTError as error:
        print("refused:", error)
