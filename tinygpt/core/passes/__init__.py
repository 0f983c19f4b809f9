"""Passes: functions from a program to a program.

A model's source (tinygpt/core/models) is plain. What a run asks for beside the model, and what makes a program fast, is
done to it here, one file each, whose docstring shows the ops before and after. Those that only make it fast can be left
out: OPTIONAL.
"""

from tinygpt.core.config import RunConfig
from tinygpt.core.errors import TinyGPTError, instead
from tinygpt.core.kinds import model_of
from tinygpt.core.models.memory import Memory
from tinygpt.core.models.programs import LEARNING, plain_program
from tinygpt.core.ops.op import Program
from tinygpt.core.passes.accumulate import accumulate
from tinygpt.core.passes.compact import compact
from tinygpt.core.passes.dropout import dropout
from tinygpt.core.passes.fuse import fuse
from tinygpt.core.passes.lora import lora
from tinygpt.core.passes.merge import merge
from tinygpt.core.passes.unread import drop_unread

MERGE, ACTIVATIONS, RESIDUALS, DISPATCHES = "merge", "activations", "residuals", "dispatches"
OPTIONAL = [MERGE, ACTIVATIONS, RESIDUALS, DISPATCHES]  # fuse.py does two of them, the GPU lowering DISPATCHES
FUSE = "fuse"  # the name of the group: all of them


def optional_passes(text: str) -> "tuple[str, ...]":
    """Those that a comma-separated list names."""
    found: list[str] = []
    for name in [part.strip() for part in text.split(",") if part.strip()]:
        if name not in OPTIONAL + [FUSE]:
            raise TinyGPTError(f"'{name}' is not a pass that can be left out{instead(name, [FUSE] + OPTIONAL)}")
        found += OPTIONAL if name == FUSE else [name]
    return tuple([name for name in OPTIONAL if name in found])


def program_of(mode: str, config: RunConfig, memory: Memory, without: "tuple[str, ...]" = ()) -> Program:
    """What the passes of this run, `without` some, make of the plain program. (Whether linear maps are merged is the
    memory's layout to say.)"""
    program = plain_program(mode, config, memory)
    learns = mode in LEARNING
    if learns and config.train.dropout and model_of(config.model.kind).drops:
        program = dropout(program, config.train, memory.counters)
    if config.lora is not None:
        program = lora(program, config.lora, memory, learns)
        if learns:
            program = drop_unread(program)  # gradients on their way to what is frozen
    if mode == "accumulate":
        program = accumulate(program)
    program = merge(program, memory, learns)
    program = fuse(program, ACTIVATIONS not in without, RESIDUALS not in without)
    if memory.compact is not None:
        program = compact(program)
    return program
