"""Prints the programs that look inside a model, and what is made of their numbers, as portable.py prints the rest."""

from bits import bits

from tinygpt.core import presets
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.look.inside import (
    direction_of,
    flow_of,
    kept_weights,
    looked_config,
    opinion,
    softmax,
    stages_of,
    triangles,
)
from tinygpt.core.look.watch import summary, tensors_of
from tinygpt.core.models.parameters import parameter_count
from tinygpt.core.models.parts import part_names, scaled_parts, stretches_of
from tinygpt.core.models.programs import LOOKING
from tinygpt.core.names import chosen, matches
from tinygpt.core.ops.gpu import Device
from tinygpt.core.plan.cpu.lowering import Lowered
from tinygpt.core.plan.gpu.lowering import GpuLowered

for changes in ({}, {"norm_place": "post", "positions": "alibi", "tied_head": "off", "logit_cap": 9.0}):
    run = looked_config(presets.preset("tiny", "modern").replace(positions="learned").replace(**changes), 7)
    for watched in ((), ("blocks.*.p", "*.lens", "x"), ("*",)):
        lowered = Lowered(run, LOOKING, watched=watched)
        print(lowered.bytes(), [tensor.name for tensor in lowered.tensors])
        for mode in LOOKING:
            print(mode, lowered.words[mode])
        print(bits(GpuLowered(run, Device(), LOOKING, watched=watched).playbook()["programs"]))
    print([repr(tensor) for tensor in tensors_of(run, LOOKING)])
    print(stages_of(run.model), [list(stop) for stop in flow_of(run.model)], kept_weights(run.model, 3))
    weights = [((7 * i) % 19) / 16 - 0.5 for i in range(parameter_count(run.model))]
    print(bits(direction_of(run.model, weights, 101)))
    for part in part_names(run.model):
        print(part, [list(stretch) for stretch in stretches_of(run.model, part)])

numbers = [((7 * i) % 19) / 16 - 0.5 for i in range(256)]
print(bits(summary(numbers + [float("inf")])))
print(bits(opinion(softmax(numbers), b"abc", 1)), bits(triangles([numbers[:2], numbers[2:4]], 2)))
names = ["blocks.0.dqkv", "blocks.0.dqkv.rotary", "blocks.10.dqkv", "x"]
for pattern in ("blocks.*.dqkv", "*", "x", "*dqkv*", "blocks.0.dqkv.rotary", "b*0*0*", "*.dqkv.*"):
    print(
        pattern,
        [matches(pattern, name) for name in names],
        chosen([pattern], names, "tensor") if pattern != "b*0*0*" else "",
    )
model = presets.preset("tiny").model
print(bits(scaled_parts(model, ["blocks.*.mlp"], ["blocks.1.head.2=0.5", "blocks.0=-1"])))
for ablate, scale in ((["blocks.2"], []), ([], ["blocks.0"]), ([], ["blocks.0=x"]), ([], ["blocks.0=inf"])):
    try:
        scaled_parts(model, ablate, scale)
        print("accepted")
    except TinyGPTError as error:
        print("refused:", error)
