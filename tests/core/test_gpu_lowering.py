"""The GPU's plan of every preset, within the limits of several devices: bindings, places, grids, workgroups."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from itertools import pairwise

import pytest
from wgsl_text import Workgroup, declared_bindings, declared_overrides, joined, overrides

from tinygpt.core.config import LoraConfig, RunConfig
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.models.adapters import trained_parameters
from tinygpt.core.models.layout import Layout
from tinygpt.core.models.memory import Memory
from tinygpt.core.models.programs import all_modes
from tinygpt.core.ops.gpu import Device, Dispatch, Segment
from tinygpt.core.ops.op import Program, Tensor
from tinygpt.core.passes import program_of
from tinygpt.core.plan.gpu.lowering import GpuLowered
from tinygpt.core.plan.gpu.memory import FLAT, named_in, verify_gpu_plan
from tinygpt.core.presets import preset, preset_names

ALIGNMENT = 256  # bytes: WebGPU's default minStorageBufferOffsetAlignment
STORAGE_BUFFERS = 8  # WebGPU's default maxStorageBuffersPerShaderStage

ODD = {"layers": 2, "d_model": 30, "heads": 3, "ctx": 37, "batch": 3}
CONFIGS = {
    **{name: preset(name) for name in preset_names()},
    "odd": preset("tiny").replace(**ODD),
    "muon": preset("large").replace(optimizer="muon", ns_steps=7),
    "accumulating": preset("tiny").replace(grad_accum=2),
    "least": preset("tiny").replace(layers=1, d_model=1, heads=1, ctx=1, batch=1),
    "adapters": RunConfig(preset("small").model, preset("small").train.replace(batch=1), LoraConfig()),
}


TRAIN, VAL = 5001, 999  # bytes of text


def programs(config: RunConfig) -> tuple[Memory, list[Program]]:
    memory = Memory(config, TRAIN, VAL)
    return memory, [program_of(mode, config, memory) for mode in all_modes(config)]


def gpu_lowered(config: RunConfig, device: Device) -> GpuLowered:
    return GpuLowered(config, device, all_modes(config), TRAIN, VAL)


def round_up(size: int, to: int) -> int:
    return -(-size // to) * to


def least_device(config: RunConfig) -> Device:
    """With buffers and bindings of no byte more than the run's largest tensor takes, and short grids."""
    memory, made = programs(config)
    tensors = [t for t in memory.tensors() if t.kind not in FLAT] + [t for p in made for t in p.tensors]
    inputs = sum(round_up(4 * t.size, ALIGNMENT) for t in memory.tensors() if t.kind == "input")
    sizes = [4 * t.size for t in tensors] + [4 * t.size for t in memory.weight.values()]
    device = Device()
    device.max_binding = device.max_buffer = max(inputs, round_up(max(sizes), ALIGNMENT))
    device.max_groups = 1024
    return device


def large_device(config: RunConfig) -> Device:
    device = Device()
    device.max_buffer, device.max_binding, device.processors = 2**40, 2**32 - 4, 128
    device.max_shared, device.max_invocations, device.subgroups, device.f16 = 49152, 1024, True, True
    return device


DEVICES = {"defaults": lambda config: Device(), "large": large_device, "least": least_device}


@functools.cache
def lowered_for(name: str, device: str) -> GpuLowered:
    return gpu_lowered(CONFIGS[name], DEVICES[device](CONFIGS[name]))


@pytest.fixture(params=[(name, device) for name in CONFIGS for device in DEVICES], ids="-".join)
def lowered(request: pytest.FixtureRequest) -> GpuLowered:
    return lowered_for(*request.param)


def all_dispatches(lowered: GpuLowered) -> Iterator[tuple[str, Dispatch]]:
    for mode, dispatches in lowered.dispatches.items():
        for dispatch in dispatches:
            yield mode, dispatch


def test_the_playbooks_bindings_keep_to_the_limits(lowered: GpuLowered) -> None:
    """Read from the playbook, which is what players take verbatim."""
    playbook, device = lowered.playbook(), lowered.device
    assert all(0 < size <= device.max_buffer and size % 4 == 0 for size in playbook["buffers"])
    for dispatches in playbook["programs"].values():
        for number, x, y, z, *places in dispatches:
            bindings = playbook["pipelines"][number]["bindings"]
            assert 3 * len(bindings) == len(places) and len(bindings) <= STORAGE_BUFFERS
            assert all(1 <= side <= device.max_groups for side in (x, y, z))
            sides: dict[str, list[tuple[int, int, int]]] = {"r": [], "w": []}
            for access, *place in zip(bindings, places[::3], places[1::3], places[2::3], strict=True):
                buffer, start, size = place
                assert start % ALIGNMENT == 0 and 0 < size <= device.max_binding and size % 4 == 0
                assert start + size <= playbook["buffers"][buffer]
                sides[access].append((buffer, start, start + size))
            assert not {buffer for buffer, _, _ in sides["r"]} & {buffer for buffer, _, _ in sides["w"]}
            for (a, _, end), (b, start, _) in pairwise(sorted(sides["w"])):
                assert a != b or end <= start, "two writable bindings overlap"


def test_what_is_read_is_what_was_written_there_last(lowered: GpuLowered) -> None:
    """Replayed place by place: no tensor that is still needed is overwritten by another, in any program."""
    plan = lowered.plan
    fixed = {name: place for name, place in plan.fixed.items() if plan.owners[place[0]] == "arena"}
    sizes = {tensor.name: tensor.size for tensor in lowered.tensors}
    for mode, dispatches in lowered.dispatches.items():
        there: dict[int, dict[str, tuple[int, int]]] = {}  # by buffer, the tensors whose values are in it
        for name, (buffer, start) in fixed.items():
            there.setdefault(buffer, {})[name] = (start, start + sizes[name])
        for dispatch in dispatches:
            for tensor in named_in(dispatch.writes):
                if tensor.kind not in FLAT:
                    buffer, start, size = plan.find(mode, tensor)
                    inside = there.setdefault(buffer, {})
                    for name, (first, end) in list(inside.items()):
                        if first < start + size and start < end:
                            del inside[name]
                    inside[tensor.name] = (start, start + size)
            for tensor in named_in(dispatch.reads + dispatch.writes):
                if tensor.kind not in (*FLAT, "input", "corpus"):
                    buffer, start, size = plan.find(mode, tensor)
                    held = there.get(buffer, {}).get(tensor.name)
                    assert held == (start, start + size), f"{mode}: {dispatch.entry} finds no {tensor.name}"
        for name, (buffer, _) in fixed.items():
            assert name in there[buffer], f"{mode} overwrites {name}"


def test_every_lasting_tensor_has_a_place_of_its_own(lowered: GpuLowered) -> None:
    plan, taken = lowered.plan, []
    for tensor in lowered.tensors:
        if tensor.kind not in FLAT:
            buffer, start = plan.fixed[tensor.name]
            assert start + tensor.size <= plan.buffers[buffer]
            taken.append((buffer, start, start + tensor.size))
    assert all(a != b or end <= start for (a, _, end), (b, start, _) in pairwise(sorted(taken)))


def test_segments_cover_the_flat_vector_once(lowered: GpuLowered) -> None:
    base = [segment for segment in lowered.segments if "base" in segment.tensors]
    check_segments(lowered, lowered.memory.layout, lowered.segments[: -len(base) or None], lowered.slices)
    if lowered.memory.base_layout is not None:
        check_segments(lowered, lowered.memory.base_layout, base, 1)


def check_segments(lowered: GpuLowered, layout: Layout, segments: list[Segment], slices: int) -> None:
    assert segments[0].start == 0
    assert all(a.start + a.floats == b.start for a, b in pairwise(segments))
    assert segments[-1].start + segments[-1].floats == layout.size
    assert sum(segment.decayed for segment in segments) == layout.decayed
    assert all(segment.decayed in (0, segment.floats) for segment in segments if segment.start >= layout.decayed)
    limit = min(lowered.device.max_binding, lowered.device.max_buffer)
    for place in layout.places:
        inside = [s for s in segments if s.start <= place.start and place.start + place.size <= s.start + s.floats]
        assert len(inside) == 1, f"{place.name} is cut"
    assert all(4 * segment.floats * slices <= limit for segment in segments)


@functools.cache
def declared(files: tuple[str, ...], entry: str) -> tuple[list[tuple[int, str, str]], set[str], set[str]]:
    text = joined(files)
    return declared_bindings(text, entry), declared_overrides(text, entry), overrides(text, entry)


@functools.cache
def workgroup(files: tuple[str, ...], entry: str, constants: tuple[tuple[str, int | float], ...]) -> Workgroup:
    return Workgroup(joined(files), entry, dict(constants))


def test_dispatches_are_what_the_texts_declare(lowered: GpuLowered) -> None:
    """Bindings by number, name and access, constants by name, and workgroups that the device can run."""
    for _, dispatch in all_dispatches(lowered):
        files = tuple(dispatch.files)
        bindings, needed, possible = declared(files, dispatch.entry)
        bound = [(name, "read") for name, _ in dispatch.reads] + [(name, "read_write") for name, _ in dispatch.writes]
        assert bindings == [(number, *binding) for number, binding in enumerate(bound)], dispatch.entry
        assert needed <= set(dispatch.constants) <= possible, dispatch.entry
        size = workgroup(files, dispatch.entry, tuple(sorted(dispatch.constants.items())))
        assert size.invocations <= lowered.device.max_invocations, dispatch.entry
        assert size.bytes <= lowered.device.max_shared, dispatch.entry


def test_the_least_devices_force_several_segments_and_arenas() -> None:
    for name in ("small", "large", "behemoth", "adapters"):
        made = lowered_for(name, "least")
        assert len(made.segments) > 1 and made.plan.owners.count("arena") > 5


@pytest.mark.parametrize("name", ["tiny", "odd", "mega", "behemoth"])
def test_one_byte_less_is_refused_in_one_sentence(name: str) -> None:
    for limit in ("max_binding", "max_buffer"):
        device = least_device(CONFIGS[name])
        setattr(device, limit, max(4 * t.size for t in every_tensor(CONFIGS[name])) - 1)
        with pytest.raises(TinyGPTError, match=r"has [0-9.]+ [KM]B, more than this GPU binds at once; use a smaller"):
            gpu_lowered(CONFIGS[name], device)


def every_tensor(config: RunConfig) -> list[Tensor]:
    memory, made = programs(config)
    flat = {"weights", "grads", "m", "v"}
    return [t for t in [*memory.weight.values(), *(t for p in made for t in p.tensors)] if t.name not in flat]


def test_caches_larger_than_a_buffer_go_to_several() -> None:
    config = preset("tiny").replace(layers=40, ctx=512, batch=1)
    device = Device()
    device.max_binding = device.max_buffer = 2**21
    made = gpu_lowered(config, device)
    caches = [tensor for tensor in made.memory.tensors() if tensor.name.startswith("cache")]
    assert 4 * sum(tensor.size for tensor in caches) > 2 * device.max_buffer
    assert len({made.plan.fixed[tensor.name][0] for tensor in caches}) > 2


def test_slices_give_way_where_the_largest_gradient_would_not_fit() -> None:
    config = preset("tiny").replace(ctx=2048, batch=1)  # the positions are the largest
    device, largest = Device(), 4 * 2048 * config.model.d_model
    assert gpu_lowered(config, device).slices == 8
    for most in (7, 6):
        device.max_binding = most * largest + 1024
        assert gpu_lowered(config, device).slices == most


def test_more_rows_than_a_grid_has_workgroups_are_refused_in_one_sentence() -> None:
    device = Device()
    device.max_groups = 6
    with pytest.raises(TinyGPTError, match="workgroups in a row, more than this GPU's 6; use a smaller batch or ctx"):
        gpu_lowered(CONFIGS["odd"], device)


def test_heads_too_wide_for_workgroup_memory_are_refused_in_one_sentence() -> None:
    with pytest.raises(TinyGPTError, match=r"attention with 2048 numbers per head .* use more heads"):
        gpu_lowered(preset("tiny").replace(layers=1, d_model=2048, heads=1, ctx=8, batch=1), Device())


# --- what the plan's own check sees ------------------------------------------------------------------------


def spoiled() -> GpuLowered:
    return gpu_lowered(CONFIGS["odd"], Device())


def check(lowered: GpuLowered) -> None:
    verify_gpu_plan(lowered.plan, lowered.dispatches)


def first_linear(lowered: GpuLowered) -> Dispatch:
    return next(dispatch for _, dispatch in all_dispatches(lowered) if dispatch.entry == "linear")


def test_a_buffer_that_is_read_and_written_is_caught() -> None:
    made = spoiled()
    check(made)
    dispatch = first_linear(made)
    read, written = dispatch.reads[0][1], dispatch.writes[0][1]
    assert read is not None and written is not None
    places = made.plan.temporary["train"]
    places[read.name], places[written.name] = (places[written.name][0], 0), (places[written.name][0], 64 * 100)
    with pytest.raises(TinyGPTError, match="reads and writes one buffer"):
        check(made)


@pytest.mark.parametrize("start", [1, 10**9])
def test_a_binding_off_the_lines_or_outside_is_caught(start: int) -> None:
    made = spoiled()
    tensor = first_linear(made).writes[0][1]
    assert tensor is not None
    places = made.plan.temporary["train"]
    places[tensor.name] = (places[tensor.name][0], start)
    with pytest.raises(TinyGPTError, match="has a wrong binding"):
        check(made)


def test_a_binding_or_a_buffer_too_large_is_caught() -> None:
    made = spoiled()
    made.device.max_binding = 4 * 37 * 3 * 256 - 4  # the logits'
    with pytest.raises(TinyGPTError, match="has a wrong binding"):
        check(made)
    made.device.max_buffer = 4 * max(made.plan.buffers) - 4
    with pytest.raises(TinyGPTError, match="a buffer larger than"):
        check(made)


def test_nine_bindings_are_caught() -> None:
    made = spoiled()
    dispatch = first_linear(made)
    dispatch.reads += [("more", None)] * (9 - len(dispatch.reads) - len(dispatch.writes))
    with pytest.raises(TinyGPTError, match="more than 8 bindings"):
        check(made)


# --- memory and the context ----------------------------------------------------------------------------------

CONTEXTS = (128, 256, 384, 512, 640, 768, 896, 1024)
ROWS = 128 * 3 * 5 * 7 * 8  # a multiple of each


@functools.cache
def of_context(T: int) -> GpuLowered:
    return gpu_lowered(preset("small").replace(ctx=T, batch=ROWS // T), large_device(preset("small")))


def test_at_a_fixed_number_of_rows_no_temporary_grows_with_the_context() -> None:
    """Nothing has a side for each pair of positions: that would be rows × ctx."""
    sizes = {T: {t.name: t.size for t in of_context(T).programs["train"].tensors if t.kind == "temp"} for T in CONTEXTS}
    assert all(sizes[T] == sizes[CONTEXTS[0]] for T in CONTEXTS)
    scratch = {T: sum(of_context(T).plan.buffers[b] for b in arenas(T)) - lasting(T) for T in CONTEXTS}
    assert len(set(scratch.values())) == 1


def arenas(T: int) -> list[int]:
    owners = of_context(T).plan.owners
    return [number for number in range(len(owners)) if owners[number] == "arena"]


def lasting(T: int) -> int:
    """Floats of the arenas that outputs and caches take."""
    return sum(round_up(t.size, 64) for t in of_context(T).memory.tensors() if t.kind in ("output", "state"))


def test_what_grows_with_the_context_grows_linearly() -> None:
    total = [of_context(T).plan.bytes() for T in CONTEXTS]
    steps = {b - a for a, b in pairwise(total)}
    assert len(steps) == 1
    model = preset("small").model
    floats = model.d_model * (3 + of_context(128).slices + 2 * model.layers)  # positions, their moments; caches
    assert steps == {4 * 128 * (floats + 2)}  # the prompt, and what is written


def test_a_layout_has_what_the_plan_has() -> None:
    """The flat vectors' buffers are the parameters' and nothing else."""
    for name in CONFIGS:
        made = lowered_for(name, "defaults")
        names = [tensor.name for tensor in made.memory.flat()]
        flat = [4 * made.plan.buffers[n] for n, owner in enumerate(made.plan.owners) if owner.split(".")[0] in names]
        assert sum(flat) == 4 * Layout(trained_parameters(CONFIGS[name])).size * (3 + made.slices)
