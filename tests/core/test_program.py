"""The program as data: what it holds, that bad ones are caught, and that the plan is tight and safe."""

from itertools import pairwise

import pytest

from tinygpt.core.errors import TinyGPTError
from tinygpt.core.models.parameters import parameter_count
from tinygpt.core.models.programs import all_modes
from tinygpt.core.ops import KERNEL_NAMES
from tinygpt.core.ops.op import Program, Tensor
from tinygpt.core.plan.cpu.lowering import Lowered, line_of
from tinygpt.core.plan.layout import LINE, Layout
from tinygpt.core.plan.memory import Slot, place, plan, verify_plan
from tinygpt.core.plan.verify import verify
from tinygpt.core.presets import preset, preset_names

SMALL = preset("tiny")


def lowered_all(config):
    return Lowered(config, [*all_modes(config), "train_fed", "init"], 5001, 999)


@pytest.fixture(scope="module")
def lowered():
    return lowered_all(SMALL)


@pytest.mark.parametrize("name", preset_names())
def test_every_presets_programs_verify_and_fit_their_plan(name):
    made = lowered_all(preset(name))
    weights = 4 * 4 * parameter_count(preset(name).model)
    assert made.plan.bytes() > weights  # weights, gradients and two moments at least


def test_no_tensor_has_a_side_for_each_pair_of_positions(lowered):
    config = preset("tiny").replace(ctx=400, batch=1)
    T = config.model.ctx
    for program in lowered_all(config).programs.values():
        for tensor in program.tensors:
            assert tensor.size < T * T, tensor


def test_memory_grows_linearly_with_ctx_at_a_fixed_number_of_tokens():
    def activations(ctx):
        made = lowered_all(preset("small").replace(ctx=ctx, batch=4096 // ctx))
        return made.plan.size - made.plan.persistent_size

    assert activations(2048) < 1.05 * activations(64)


def test_the_backward_pass_mirrors_the_forward_pass(lowered):
    kernels = [op.kernel for op in lowered.programs["train"].ops]
    layers = SMALL.model.layers
    for forward, backward in [("layernorm", "layernorm_backward"), ("attention", "attention_backward")]:
        assert kernels.count(forward) == kernels.count(backward)
    linears = kernels.count("linear") + kernels.count("linear_activation")
    assert (
        linears == kernels.count("linear_backward_input") == kernels.count("linear_backward_weight") == 4 * layers + 1
    )


def test_every_gradient_is_written_before_the_optimizer_reads_them_all(lowered):
    written = set()
    for op in lowered.programs["train"].ops:
        if op.kernel == "grad_norm":
            break
        written.update(tensor.name for tensor in op.writes() if tensor.kind == "grad")
    assert written == {"d" + place.name for place in Layout(SMALL.model).places}


def test_moves_cover_every_parameter_once():
    layout = Layout(SMALL.model)
    offsets = sorted((move.offset, move.size) for move in layout.moves)
    assert sum(size for _, size in offsets) == parameter_count(SMALL.model)
    assert all(a + size == b for (a, size), (b, _) in pairwise(offsets))
    starts = sorted((move.start, move.size) for move in layout.moves)
    assert all(a + size <= b for (a, size), (b, _) in pairwise(starts))
    assert all(place.start % LINE == 0 for place in layout.places)
    matrices = [place for place in layout.places if len(place.shape) == 2]
    assert max(place.start + place.size for place in matrices) <= layout.decayed <= layout.size


def test_a_steps_flops_are_six_a_weight_and_token():
    config = preset("huge")
    program = lowered_all(config).programs["train"]
    linear = sum(place.size for place in Layout(config.model).places if len(place.shape) == 2)
    linear -= config.model.ctx * config.model.d_model  # positions are looked up, not multiplied
    tokens = config.train.batch * config.model.ctx
    attention = 7 * 2 * config.train.batch * config.model.d_model * config.model.layers
    attention *= config.model.ctx * (config.model.ctx + 1) // 2
    assert program.flops() == 6 * linear * tokens + attention


def test_words_hold_what_the_op_holds(lowered):
    words = lowered.words["train"]
    at = 0
    for op in lowered.programs["train"].ops:
        signature = op.declared
        assert KERNEL_NAMES[words[at]] == op.kernel
        tensors = words[at + 2 : at + 2 + len(op.tensors)]
        for line, tensor in zip(tensors, op.tensors, strict=True):
            assert line == (-1 if tensor is None else lowered.plan.start("train", tensor) // LINE)
        tail = words[at + 3 + len(op.tensors) : at + words[at + 1]]
        assert tail == op.numbers()
        assert len(tail) == len(signature.dims) + len(signature.scalars)
        at += words[at + 1]
    assert at == len(words)


KEPT = ("weights", "m", "v", "counters", "ring", "val_loss", "written", "cursor", "token", "position")


def test_what_a_run_leaves_is_written_behind_the_word_that_it_commits_at(lowered):
    for mode in all_modes(SMALL):
        program, ops = lowered.programs[mode], lowered.programs[mode].ops
        before = {tensor.root().name for op in ops[: program.committed] for tensor in op.writes()}
        assert not before & set(KEPT), mode
        words, at = lowered.words[mode], 0
        for _ in range(program.committed):
            at += words[at + 1]
        assert lowered.commits[mode] == at
        assert lowered.playbook()["programs"][mode] == {"words": words, "commit": at}
    kept = {
        tensor.root().name
        for op in lowered.programs["train"].ops[lowered.programs["train"].committed :]
        for tensor in op.writes()
    }
    assert kept == {"weights", "m", "v", "ring", "counters"}


def test_only_what_is_asked_for_has_memory():
    writing, training = Lowered(SMALL, ["prefill", "decode"]), Lowered(SMALL, ["train"], 5001, 999)
    names = [{tensor.name for tensor in made.tensors} for made in (writing, training)]
    assert not names[0] & {"grads", "m", "v", "train_text", "ring"} and "cache_k.0" in names[0]
    assert not names[1] & {"val_text", "prompt", "written", "cache_k.0"} and {"train_text", "ring"} <= names[1]
    assert next(tensor for tensor in training.tensors if tensor.name == "train_text").size == 1251  # words


def test_a_tensor_off_its_line_is_caught(lowered):
    with pytest.raises(TinyGPTError, match="begins at float 17"):
        line_of(17)


def chain():
    """x -> y -> z, all temporary but the first."""
    program = Program("chain")
    x = program.tensor("x", (2, 3), "input")
    gain, bias = program.tensor("gain", (3,), "weight"), program.tensor("bias", (3,), "weight")
    y, mean, rstd = program.tensor("y", (2, 3)), program.tensor("mean", (2,)), program.tensor("rstd", (2,))
    program.call("layernorm", x=x, gain=gain, bias=bias, y=y, mean=mean, rstd=rstd, N=2, C=3, eps=1e-5)
    return program, y


def test_a_right_program_is_accepted():
    program, _ = chain()
    verify(program)


def test_reading_what_was_never_written_is_caught():
    program, y = chain()
    ghost = program.tensor("ghost", (2, 4))
    program.call("linear", x=y, weight=program.tensor("w", (4, 3), "weight"), residual=ghost,
                 y=program.tensor("z", (2, 4)), N=2, O=4, I=3)  # fmt: skip
    with pytest.raises(TinyGPTError, match="ghost is read before it is written"):
        verify(program)


def test_a_shape_that_does_not_agree_is_caught():
    program, y = chain()
    program.call(
        "linear", x=y, weight=program.tensor("w", (4, 3), "weight"), y=program.tensor("z", (2, 5)), N=2, O=4, I=3
    )
    with pytest.raises(TinyGPTError, match=r"y is z\[2,5\], not \[2, 4\]"):
        verify(program)


def test_an_output_that_is_also_an_input_is_caught():
    program, y = chain()
    program.call("linear", x=y, weight=program.tensor("w", (3, 3), "weight"), y=y, N=2, O=3, I=3)
    with pytest.raises(TinyGPTError, match="y is given twice"):
        verify(program)


def test_writing_an_input_or_a_weight_is_caught():
    for kind, says in (("input", "the host's"), ("corpus", "the host's"), ("weight", "can still be abandoned")):
        program, y = chain()
        z = program.tensor("z", (2, 3), kind)
        program.call("linear", x=y, weight=program.tensor("w", (3, 3), "weight"), y=z, N=2, O=3, I=3)
        program.commit()
        with pytest.raises(TinyGPTError, match=says):
            verify(program)


def test_dims_that_overflow_are_caught():
    program, _ = chain()
    program.ops[0].dims[0] = 2**31
    with pytest.raises(TinyGPTError, match="N is 2147483648"):
        verify(program)
    program.ops[0].dims[0] = 0
    with pytest.raises(TinyGPTError, match="N is 0"):
        verify(program)


def test_a_seed_may_have_all_of_its_32_bits():
    program, y = chain()
    counters, out = program.tensor("counters", (4,), "input", "i32"), program.tensor("out", y.shape)
    program.call("dropout", x=y, counters=counters, y=out, N=2, C=3, seed=2**32 - 1, site=0, rate=0.1)
    verify(program)
    assert program.ops[-1].numbers()[2] == -1
    program.ops[-1].dims[2] += 1
    with pytest.raises(TinyGPTError, match="seed is 4294967296"):
        verify(program)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"batch": 65536, "ctx": 1048576}, "68,719,476,736 rows, and at most 2,147,483,647 are possible"),
        ({"layers": 1024, "d_model": 65536, "heads": 1}, "parameters, and at most 2,147,483,647 are possible"),
    ],
)
def test_a_run_too_large_for_the_words_is_refused_in_one_sentence(changes, says):
    with pytest.raises(TinyGPTError, match=says):
        lowered_all(SMALL.replace(**changes))


def test_a_missing_or_unknown_argument_is_caught():
    program, y = chain()
    with pytest.raises(TinyGPTError, match="without its tensor 'weight'"):
        program.call("linear", x=y, y=y, N=2, O=3, I=3)
    with pytest.raises(TinyGPTError, match="does not take"):
        program.call("pick_row", x=y, position=y, y=y, N=2, C=3, Z=1)


def test_dead_tensors_give_their_place_to_others():
    slots = [Slot(Tensor("a", (64,)), 0, 1), Slot(Tensor("b", (64,)), 1, 2), Slot(Tensor("c", (64,)), 2, 3)]
    assert place(slots, base=16) == 16 + 128
    assert slots[0].start == slots[2].start != slots[1].start


def test_a_plan_with_an_overlap_is_caught():
    lowered = lowered_all(SMALL)
    made = list(lowered.programs.values())
    good = plan(lowered.tensors, made, {p.mode: [None] * len(p.ops) for p in made})
    verify_plan(good)
    slots = good.temporary["train"]
    a, b = next((a, b) for a in slots for b in slots if a is not b and a.first <= b.last and b.first <= a.last)
    b.start = a.start
    with pytest.raises(TinyGPTError, match="overlap"):
        verify_plan(good)


def test_a_program_prints_itself(lowered):
    text = repr(lowered.programs["train"].ops[3])
    assert text.startswith("blocks.0.qkv[512,144] = linear(blocks.0.a[512,48], blocks.0.attn.qkv.weight[144,48]")
