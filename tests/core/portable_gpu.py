"""Prints the GPU's playbooks, as portable.py prints the rest of core."""

from bits import bits

from tinygpt.core import presets
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.models.programs import all_modes
from tinygpt.core.plan.gpu.lowering import GpuLowered
from tinygpt.core.plan.gpu.playbook import device_of

DEVICES = (
    {},
    {"max_buffer": 2**40, "max_binding": 2**31, "max_shared": 49152, "subgroups": True, "f16": True, "processors": 128},
    {"max_buffer": 2**20, "max_binding": 2**20, "max_groups": 2048},
)
CHANGES = ({}, {"grad_accum": 3}, {"ctx": 17, "batch": 3, "d_model": 45})

LAYERS = 2  # at most: a long proof plans all

for name in presets.preset_names():
    for described in DEVICES if name in ("tiny", "small", "large") else DEVICES[:1]:
        for changes in CHANGES if name in ("tiny", "small") else CHANGES[:1]:
            try:
                run = presets.preset(name).replace(**changes)
                run = run.replace(layers=min(LAYERS, run.model.layers))
                playbook = GpuLowered(
                    run, device_of(described), all_modes(run) + ["train_fed"], 100003, 9999
                ).playbook()
                for part in sorted(playbook):
                    print(name, part, bits(playbook[part]))
            except TinyGPTError as error:
                print("refused:", error)
