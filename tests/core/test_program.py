"""The program as data: what it holds, that bad ones are caught, and that the plan is tight and safe."""

from itertools import pairwise, product

import pytest

from tinygpt.core.errors import TinyGPTError
from tinygpt.core.models.layout import LINE, Layout
from tinygpt.core.models.parameters import parameter_count, parameters
from tinygpt.core.models.programs import all_modes
from tinygpt.core.ops import KERNEL_NAMES
from tinygpt.core.ops.op import Program, Tensor
from tinygpt.core.plan.cpu.lowering import Lowered, line_of
from tinygpt.core.plan.memory import Slot, lifetimes, place, plan, verify_plan
from tinygpt.core.plan.verify import overlap, verify
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
    assert written == {"d" + place.name for place in Layout(parameters(SMALL.model)).places}


def test_moves_cover_every_parameter_once():
    layout = Layout(parameters(SMALL.model))
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
    linear = sum(place.size for place in Layout(parameters(config.model)).places if len(place.shape) == 2)
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
        assert len(tail) == len(signature.dims) + len(signature.scalars) + 2 * len(signature.apart)
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
    y, stats = program.tensor("y", (2, 3)), program.tensor("stats", (2, 2))
    program.call("layernorm", x=x, gain=gain, bias=bias, y=y, stats=stats, N=2, C=3, eps=1e-5)
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


# --- views -----------------------------------------------------------------------------------------------


def added_to_columns(start=1, count=2, whole=True, **changes):
    """x -> y [2,3], then merged [2,6] and, added to some of its columns, y times a matrix."""
    program, y = chain()
    merged = program.tensor("merged", (2, 6))
    if whole:
        program.call("linear", x=y, weight=program.tensor("w", (6, 3), "weight"), y=merged, N=2, O=6, I=3)
    arguments = {"x": y, "weight": program.tensor("b", (count, 3), "weight"), "y": merged.columns(start, count)}
    arguments |= {"N": 2, "O": count, "I": 3, "accumulate": 1, "scale": 0.5}
    program.call("linear", **{**arguments, **changes})
    return program, merged


def test_columns_of_a_merged_tensor_are_written_as_a_view():
    program, merged = added_to_columns()
    verify(program)
    view = program.ops[-1].tensor("y")
    assert (view.start, view.pitch, view.span(), view.size, view.root()) == (1, 6, 8, 4, merged)
    assert program.ops[-1].numbers()[-2:] == [6, 1]
    assert program.ops[-2].numbers()[-2:] == [6, 0]
    assert repr(view.columns(1, 1)) == "merged[:,1:3][:,1:2][2,1]" and view.columns(1, 1).start == 2
    wide = Tensor("wide", (2, 300)).columns(201, 5)  # engines are told of the nearest place that can be bound
    assert (wide.start, wide.offset(), wide.span()) == (201, 9, 305)


def test_columns_may_be_written_one_after_the_other_but_are_read_when_all_are():
    program = Program("train")
    x, weight = Tensor("x", (2, 3), "input"), program.tensor("w", (3, 3), "weight")
    y, copied = program.tensor("y", (2, 6)), program.tensor("copied", (12,))
    for start in (0, 3):
        program.call("linear", x=x, weight=weight, y=y.columns(start, 3), N=2, O=3, I=3)
    program.call("copy", x=y, y=copied, P=12)
    verify(program)
    del program.ops[1]
    with pytest.raises(TinyGPTError, match="y is read before it is written"):
        verify(program)


def test_a_view_keeps_alive_what_it_is_of():
    program, merged = added_to_columns()
    z = program.tensor("z", (2, 3))
    weight = program.tensor("c", (2, 3), "weight")
    program.call("linear_backward_input", dy=merged.columns(4, 2), weight=weight, dx=z, N=2, O=2, I=3)
    verify(program)
    slots = {slot.tensor.name: slot for slot in lifetimes(program, [None] * len(program.ops))}
    assert sorted(slots) == ["merged", "stats", "y", "z"]
    assert (slots["merged"].first, slots["merged"].last, slots["merged"].size) == (1, 3, 64)


def misplaced(start, pitch):
    view = Tensor("merged", (2, 6)).view("view", (2, 2), start)
    view.pitch = pitch
    return view


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"whole": False}, r"merged\[:,1:3\] is read before it is written"),
        ({"y": misplaced(5, 6)}, r"y is view\[2,2\], which does not lie inside of merged\[2,6\]"),
        ({"y": misplaced(0, 1)}, "the rows of y, 2 floats, lie only 1 apart"),
        ({"x": Tensor("x", (2, 6)).columns(0, 3)}, r"x is x\[:,0:3\]\[2,3\], whose rows lie apart; linear takes it in"),
        ({"x": Tensor("x", (20,)).view("x", (2, 3), 7)}, "starts 7 floats into x, and not at a multiple of 64"),
        ({"y": Tensor("m", (4, 2)).columns(0, 1)}, r"y is m\[:,0:1\]\[4,1\], whose rows lie apart, not \[2, 2\]"),
    ],
)
def test_a_view_that_a_kernel_cannot_take_is_caught(changes, says):
    with pytest.raises(TinyGPTError, match=says):
        verify(added_to_columns(**changes)[0])


def test_columns_that_are_not_there_are_refused():
    for shape, start, count in [((2, 6), 5, 2), ((2, 6), -1, 2), ((2, 6), 0, 0), ((6,), 0, 1), ((2, 3, 4), 0, 1)]:
        with pytest.raises(TinyGPTError, match="has no columns"):
            Tensor("merged", shape).columns(start, count)


def test_a_slice_of_what_its_op_reads_is_caught():
    program, merged = added_to_columns()
    program.call(
        "linear", x=merged, weight=program.tensor("c", (2, 6), "weight"), y=merged.columns(4, 2), N=2, O=2, I=6
    )
    with pytest.raises(TinyGPTError, match=r"merged\[:,4:6\] and merged share memory"):
        verify(program)


def test_views_overlap_if_they_share_a_float():
    """All of one pitch and many of two: rows, columns and places in one tensor, float by float."""
    root = Tensor("root", (40,))
    views = []
    for pitch, rows, columns, start in product((4, 5), (1, 2, 3), (1, 2, 4), range(12)):
        views.append(root.view("view", (rows, columns), start))
        views[-1].pitch = pitch
    floats = [{v.start + r * v.pitch + c for r in range(v.shape[0]) for c in range(v.shape[1])} for v in views]
    for (a, at_a), (b, at_b) in product(zip(views, floats, strict=True), repeat=2):
        if a.pitch == b.pitch:
            assert overlap(a, b) == bool(at_a & at_b), (a.start, a.shape, b.start, b.shape, a.pitch)
        else:
            assert overlap(a, b) or not at_a & at_b


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
        program.call("pick_row", x=y, position=y, row=y, y=y, N=2, C=3, Z=1)


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
