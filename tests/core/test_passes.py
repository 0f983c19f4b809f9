"""Passes: what each makes of a program, and that it leaves the program it was given alone.

That gradients stay right is shown where engines are held to PyTorch: tests/engines/test_options.py, test_adapter.py and
test_compact_writing.py.
"""

import pytest

from tinygpt.core.config import LoraConfig, RunConfig
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.models.memory import Memory
from tinygpt.core.models.programs import PROGRAMS, plain_program
from tinygpt.core.ops.op import Program
from tinygpt.core.passes import optional_passes, program_of
from tinygpt.core.passes.unread import drop_unread
from tinygpt.core.plan.verify import verify
from tinygpt.core.presets import preset

SMALL = preset("tiny", "classic").replace(layers=2)
UNFUSED = optional_passes("fuse")
ALL = "q_proj,k_proj,v_proj,o_proj,fc_in,fc_out"
ADAPTED = RunConfig(SMALL.model, SMALL.train.replace(dropout=0.1), LoraConfig(rank=2, targets=ALL))


def listed(program: Program) -> list[str]:
    return [f"{op!r} {op.dims} {op.scalars}" for op in program.ops]


@pytest.mark.parametrize("mode", [mode for mode in PROGRAMS if mode not in ("unpack", "rejoin", "accumulate")])
def test_where_nothing_special_is_asked_for_the_program_is_plain(mode: str) -> None:
    apart = Memory(SMALL, 999, 999, merged=False)
    assert listed(program_of(mode, SMALL, apart, UNFUSED)) == listed(plain_program(mode, SMALL, apart))
    memory = Memory(SMALL, 999, 999)
    fused = [op.kernel for op in program_of(mode, SMALL, memory).ops]
    assert not {"add", "activation", "activation_backward"} & set(fused)


GATED = SMALL.replace(activation="swiglu", kv_heads=1)


@pytest.mark.parametrize("config", [SMALL, GATED, RunConfig(GATED.model, GATED.train, LoraConfig(rank=2, targets=ALL))])
def test_maps_of_one_input_are_one_product_of_the_same_flops(config: RunConfig) -> None:
    for mode in ("train", "decode"):
        memory, apart = Memory(config, 999, 999), Memory(config, 999, 999, merged=False)
        one, several = program_of(mode, config, memory), program_of(mode, config, apart)
        verify(one)
        verify(several)
        assert one.flops() == several.flops()

        def maps(program: Program, which: str) -> list[str]:
            named = [tensor.name for op in program.ops for tensor in op.reads() + op.writes()]
            return [name for name in named if f"blocks.0.{which}.weight" in name]

        for merged, members in (("attn.qkv", ["q_proj", "k_proj", "v_proj"]), ("mlp.fc_gate_in", ["fc_gate", "fc_in"])):
            if "gate" in merged and config is SMALL:
                continue
            room = merged.split(".")[0]
            assert maps(one, merged) and not maps(several, merged)
            for member in members:
                assert len(maps(several, f"{room}.{member}")) == len(maps(one, merged))
                assert not maps(one, f"{room}.{member}")


def test_maps_stay_merged_where_their_weights_could_not_be_bound_alone() -> None:
    odd = SMALL.replace(d_model=18, heads=3)
    memory = Memory(odd, 999, 999, merged=False)
    assert memory.layout.merged
    assert listed(program_of("train", odd, memory)) == listed(program_of("train", odd, Memory(odd, 999, 999)))


def test_a_further_batch_differs_in_what_it_adds_to_alone() -> None:
    config = SMALL.replace(grad_accum=2)
    memory = Memory(config, 999, 999)
    first, further = program_of("gradient", config, memory), program_of("accumulate", config, memory)
    assert [repr(op) for op in first.ops] == [repr(op) for op in further.ops]
    added = [b for a, b in zip(first.ops, further.ops, strict=True) if a.dims != b.dims]
    gradients = {tensor.name for op in added for tensor in op.writes() if tensor.kind == "grad"}
    assert gradients == {memory.grad[place.name].name for place in memory.layout.places}
    assert [op.kernel for op in added if not any(t.kind == "grad" for t in op.writes())] == ["mean_loss"]


@pytest.mark.parametrize("config", [SMALL.replace(dropout=0.1), ADAPTED], ids=["dropout", "both"])
def test_what_is_kept_is_still_written_behind_the_place_from_which_it_is(config: RunConfig) -> None:
    """`verify` refuses state that is written while a run can still be abandoned."""
    memory = Memory(config, 999, 999, merged=False)
    plain = plain_program("train", config, memory)
    before = listed(plain)
    made = program_of("train", config, memory, UNFUSED)
    verify(made)
    assert [repr(op) for op in made.ops[made.committed :]] == [repr(op) for op in plain.ops[plain.committed :]]
    assert len(made.ops) > len(plain.ops) and listed(plain) == before


def test_without_its_pass_a_base_is_not_frozen() -> None:
    memory = Memory(ADAPTED, 999, 999, merged=False)
    with pytest.raises(TinyGPTError, match="is the host's to write"):
        verify(plain_program("train", ADAPTED, memory))


def test_what_nothing_reads_is_left_out_and_all_that_led_to_it() -> None:
    memory = Memory(SMALL, 999, 999)
    program = plain_program("eval", SMALL, memory)
    whole = listed(program)
    a, b = program.tensor("a", (4,)), program.tensor("b", (4,))
    program.call("constant", y=a, P=4, start=0, value=1.0)
    program.call("copy", x=a, y=b, P=4)
    assert listed(drop_unread(program)) == whole
