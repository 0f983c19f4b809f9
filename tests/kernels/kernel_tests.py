"""What holds for every kernel. A subclass in ops/ names one and says what is its own: cases, formula and bound."""

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from cases import (
    TESTS,
    UNSET,
    Case,
    Dims,
    assert_matches_spec,
    call_of,
    case_id,
    error_bound,
    is_float,
    is_gradient,
    make_case,
    run_spec,
)
from harness_cpp import cpu_lanes, run_kernel
from slopes import assert_gradient
from wgsl_text import declared_bindings, declared_overrides, joined, overrides

from tinygpt.core.ops import gpu
from tinygpt.core.ops.gpu import Device, Target
from tinygpt.core.ops.op import KERNELS, Op
from tinygpt.kernels.spec import SPEC
from tinygpt.labs.rounding import U

BOTH_ROUND = 2 * 2.0**-53  # two sides in float64


Fill = Callable[[Any, Dims, np.random.Generator], Any]  # given standard normal numbers


def some(values: list[Any], every: int = 3) -> list[Any]:
    """Parameters of which `make test` takes every so many; the others are for `make test-slow`."""
    return [pytest.param(value, marks=[pytest.mark.slow] if i % every else []) for i, value in enumerate(values)]


def on(cases: str) -> Callable[[Any], Any]:
    """A test is for each case in this list of the subclass; where that is empty, there is no such test."""

    def marked(test: Any) -> Any:
        test.on = cases
        return test

    return marked


def device_with(**features: Any) -> Device:
    device = Device()
    for name, value in features.items():
        setattr(device, name, value)
    return device


def torch_of(value: Any) -> Any:
    return torch.from_numpy(value.copy()) if isinstance(value, np.ndarray) else value


def numpy_of(value: Any) -> np.ndarray:
    return torch.as_tensor(value, dtype=torch.float64).detach().numpy()


class KernelTests:
    """A case fixes, by the signature's names, every dim, and where it matters a scalar, a tensor of whole numbers, or
    an optional tensor's absence (None), or the `y_pitch` and `y_offset` of a tensor y whose rows lie apart. `make_case`
    fills in the rest."""

    kernel: str
    cases: list[Dims]  # run on every engine
    cpp_cases: list[Dims] = []  # more, for C++
    wgsl_cases: list[Dims] = []  # more, for WGSL
    lanes_cases: list[Dims] = []  # for any number of invocations that share a row
    long_cases: list[Dims] = []  # of more than three workgroups
    wgsl_every = 1  # `make test` compiles every so many of the cases for a GPU: software takes a second for some
    forward = ""  # the kernel whose gradient this one is,
    small_cases: list[Dims] = []  # as finite differences show on these
    fills: dict[str, Fill] = {}  # of tensors whose numbers are not standard normal
    scalars: dict[str, float] = {}
    exact = False  # nothing is rounded
    on_gpu = True
    formula: Callable[..., dict[str, Any]] | None = None  # the outputs by other means, in float64, of torch's tensors

    def shape(self, name: str, dims: Dims) -> tuple[int, ...]:
        signature = KERNELS[self.kernel]
        given = signature.defaults | dims
        return Op(self.kernel, [], [given[name] for name in signature.dims], []).shape(name)

    def settle(self, case: Case) -> None:
        """Make inputs agree that do in training: what a backward kernel is given is what its forward kernel kept."""

    def bound(self, **case: Any) -> dict[str, Any]:
        """The largest error of each output of floats that rounding to float32 can explain (see labs/rounding.py)."""
        return {name: np.zeros_like(case[name]) for name in KERNELS[self.kernel].outputs if is_float(case[name])}

    def __init_subclass__(cls, register: bool = True) -> None:
        if not register:
            return
        TESTS[cls.kernel] = cls()
        cls.accumulating = [dims for dims in cls.cases if dims.get("accumulate") == 1]
        cls.formula_cases = cls.cases if cls.formula else []
        cls.all_cpp_cases = cls.cases + cls.cpp_cases
        cls.all_wgsl_cases = cls.cases + cls.wgsl_cases if cls.on_gpu else []
        for name, test in inspect.getmembers(cls, lambda member: hasattr(member, "on")):
            if not getattr(cls, test.on):
                setattr(cls, name, None)

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        if not hasattr(metafunc.function, "on"):
            return
        cases = getattr(self, metafunc.function.on)
        if "lanes_of_cpu" in metafunc.fixturenames:
            metafunc.parametrize("dims, lanes_of_cpu", list(self.cpp_runs(cases)))
        elif "slices" in metafunc.fixturenames:
            metafunc.parametrize("dims, slices, subgroups", list(self.wgsl_runs(cases)))
        else:
            metafunc.parametrize("dims", cases, ids=case_id)

    def cpp_runs(self, cases: list[Dims]) -> Iterator[Any]:
        """The widest vectors for every case, the others for half of them; for the rest in `make test-slow`."""
        for i, dims in enumerate(cases):
            for lanes in cpu_lanes():
                marks = [pytest.mark.slow] if i % 2 and lanes < cpu_lanes()[-1] else []
                yield pytest.param(dims, lanes, id=f"{case_id(dims)}-{lanes}", marks=marks)

    def wgsl_runs(self, cases: list[Dims]) -> Iterator[Any]:
        """In one slice or more, with and without subgroups, wherever that makes a difference. `make test` takes one way
        of each case, another one of the next, and whatever is the first to use a file; `make test-slow` the rest."""
        used: set[Any] = set()
        for i, dims in enumerate(cases):
            ways = self.ways(dims)
            for number, (slices, subgroups, files) in enumerate(ways):
                skipped = number != i // self.wgsl_every % len(ways) or i % self.wgsl_every
                marks = [pytest.mark.slow] if skipped and files <= used else []
                used |= files
                where = f"{slices} slices-{'' if subgroups else 'no '}subgroups"
                yield pytest.param(dims, slices, subgroups, id=f"{case_id(dims)}-{where}", marks=marks)

    def ways(self, dims: Dims) -> list[tuple[int, bool, set[Any]]]:
        """Slices, subgroups, and the files and entries that they lead to."""
        found: list[tuple[int, bool, set[Any]]] = []
        for slices in self.slices():
            for subgroups in (False, True):
                dispatches = self.dispatches(dims, device_with(subgroups=subgroups), slices)
                files = {(tuple(dispatch.files), dispatch.entry) for dispatch in dispatches}
                if (slices, files) not in [(way[0], way[2]) for way in found]:
                    found.append((slices, subgroups, files))
        return found

    # --- the specification -----------------------------------------------------------------------------------

    def test_spec_has_the_signature(self):
        signature = KERNELS[self.kernel]
        parameters = inspect.signature(SPEC[self.kernel]).parameters
        assert list(parameters) == signature.tensors + signature.dims + signature.scalars
        assert all(parameter.kind is inspect.Parameter.KEYWORD_ONLY for parameter in parameters.values())
        given = {name: parameter.default for name, parameter in parameters.items()}
        assert {
            name: value for name, value in given.items() if value is not inspect.Parameter.empty
        } == signature.defaults
        optional = [name for name, parameter in parameters.items() if "None" in str(parameter.annotation)]
        assert optional == signature.optional

    @on("cases")
    def test_spec_leaves_its_inputs_alone_and_writes_its_outputs_whole(self, dims):
        case = make_case(self.kernel, dims)
        arguments = {name: value.copy() if isinstance(value, np.ndarray) else value for name, value in case.items()}
        for name in KERNELS[self.kernel].inputs:
            if arguments[name] is not None:
                arguments[name].flags.writeable = False
        assert SPEC[self.kernel](**arguments) is None
        for name in KERNELS[self.kernel].outputs:
            if arguments[name] is not None:
                written = self.written(name, arguments[name], dims)
                assert (np.isfinite(written) & (written != UNSET)).all(), name

    def written(self, name: str, output: Any, dims: Dims) -> Any:
        """The part of an output that a call writes."""
        return output

    @on("formula_cases")
    def test_spec_is_the_formula(self, dims):
        case = make_case(self.kernel, dims)
        outputs = self.formula(**{name: torch_of(value) for name, value in case.items()})
        assert_matches_spec(self.kernel, dims, {name: numpy_of(value) for name, value in outputs.items()}, BOTH_ROUND)

    @on("small_cases")
    def test_spec_is_the_slope_of_its_forward_kernel(self, dims):
        """Of the sum of dy * y, and of dresidual * x, which has come to x by another way."""
        given, case = make_case(self.forward, dims), make_case(self.kernel, dims)
        known = given | run_spec(self.forward, given)
        case |= {name: known[name] for name in KERNELS[self.kernel].inputs if name in known}

        def terms():
            y = run_spec(self.forward, given)
            parts = [case[f"d{name}"] * y[name] for name in y if f"d{name}" in case]
            return parts if case.get("dresidual") is None else [*parts, case["dresidual"] * given["x"]]

        size = sum(np.abs(part).sum() for part in terms())
        added_to = call_of(self.kernel, case).updated()
        for name, gradient in run_spec(self.kernel, case).items():
            before = case[name] if name in added_to else 0
            assert_gradient(gradient - before, lambda: sum(part.sum() for part in terms()), given[name[1:]], size)

    @on("accumulating")
    def test_spec_adds_what_it_would_write(self, dims):
        case = make_case(self.kernel, dims)
        names = [name for name in KERNELS[self.kernel].updated if case[name] is not None]
        added = run_spec(self.kernel, case)
        overwriting = case | {"accumulate": 0}
        still_read = call_of(self.kernel, overwriting).updated()
        fresh = {name: np.full_like(case[name], 0 if name in still_read else np.nan) for name in names}
        written = run_spec(self.kernel, overwriting | fresh)
        bounds = error_bound(self.kernel, case)
        for name in names:
            rounding = bounds[name] * (3 * 2.0**-53 / U)  # of either sum, and of the difference taken here
            assert (np.abs(added[name] - case[name] - written[name]) <= rounding).all(), name

    # --- the bounds ------------------------------------------------------------------------------------------

    @on("cases")
    def test_spec_in_float32_is_within_the_bounds(self, dims):
        outputs = run_spec(self.kernel, make_case(self.kernel, dims, dtype=np.float32))
        assert all(output.dtype == np.float32 for output in outputs.values() if is_float(output))
        assert_matches_spec(self.kernel, dims, outputs)

    @on("cases")
    def test_bounds_are_tight_enough_to_see_a_mistake(self, dims):
        """A bound is far below the numbers it guards: an error of a thousandth of their size does not pass."""
        case = make_case(self.kernel, dims)
        expected = run_spec(self.kernel, case)
        for name, bound in error_bound(self.kernel, case).items():
            size = np.nanmax(np.abs(expected[name]))
            assert np.nanmax(bound) <= 1e-3 * size or size == 0, name  # 0: all cancels, where C or V is 1
            if not self.exact:
                assert (self.written(name, bound, dims) > 0).all(), name

    def test_one_wrong_entry_is_found(self):
        dims = self.cases[-1]
        outputs = run_spec(self.kernel, make_case(self.kernel, dims, dtype=np.float32))
        name = sorted(outputs)[0]
        flat = outputs[name].reshape(-1)
        entry = np.flatnonzero(~np.isnan(flat))[-1]
        off = flat[entry] + max(1e-3, 0.01 * np.nanmax(np.abs(flat)))
        for wrong in (off, np.nan) if is_float(flat) else (flat[entry] + 1,):
            flat[entry] = wrong
            with pytest.raises(AssertionError, match=self.kernel):
                assert_matches_spec(self.kernel, dims, outputs)

    # --- C++ -------------------------------------------------------------------------------------------------

    @on("all_cpp_cases")
    def test_cpp_is_the_spec_and_threads_do_not_change_a_bit(self, dims, lanes_of_cpu):
        case = make_case(self.kernel, dims, dtype=np.float32)
        alone = run_kernel(self.kernel, case, lanes_of_cpu)
        assert_matches_spec(self.kernel, dims, alone)
        for threads in (2, 3):
            together = run_kernel(self.kernel, case, lanes_of_cpu, threads)
            for name, output in alone.items():
                assert output.tobytes() == together[name].tobytes(), f"{name} with {threads} threads"

    # --- WGSL ------------------------------------------------------------------------------------------------

    def slices(self) -> tuple[int, ...]:
        """Gradients are kept in one or in more."""
        return (1, 3) if any(is_gradient(self.kernel, name) for name in KERNELS[self.kernel].tensors) else (1,)

    def dispatches(self, dims: Dims, device: Device, slices: int = 1) -> list[Any]:
        op = call_of(self.kernel, dims)
        return op.declared.dispatch(op, Target(device, slices))

    @on("all_wgsl_cases")
    def test_wgsl_is_the_spec(self, dims, slices, subgroups, wgsl):
        case = make_case(self.kernel, dims, dtype=np.float32)
        outputs = wgsl.run_kernel(self.kernel, case, device_with(subgroups=subgroups), slices)
        assert_matches_spec(self.kernel, dims, outputs)

    @on("all_wgsl_cases")
    def test_wgsl_declares_what_is_dispatched(self, dims):
        for subgroups in (False, True):
            for dispatch in self.dispatches(dims, device_with(subgroups=subgroups), 3):
                text = joined(dispatch.files)
                bound = [(name, "read") for name, _ in dispatch.reads]
                bound += [(name, "read_write") for name, _ in dispatch.writes]
                declared = declared_bindings(text, dispatch.entry)
                assert declared == [(number, name, access) for number, (name, access) in enumerate(bound)]
                assert len(declared) <= 8
                given = set(dispatch.constants)
                assert declared_overrides(text, dispatch.entry) <= given <= overrides(text, dispatch.entry)

    @on("long_cases")
    def test_wgsl_long_grids_have_a_second_axis(self, dims, wgsl):
        device, slices = device_with(max_groups=3), self.slices()[-1]
        assert all(dispatch.grid[1] > 1 for dispatch in self.dispatches(dims, device, slices))
        outputs = wgsl.run_kernel(self.kernel, make_case(self.kernel, dims, dtype=np.float32), device, slices)
        assert_matches_spec(self.kernel, dims, outputs)

    @pytest.mark.parametrize("lanes", some([4, 1, 16, 64], 2))
    @on("lanes_cases")
    def test_wgsl_any_number_of_lanes_within_and_beyond_a_subgroup(self, dims, lanes, wgsl, monkeypatch):
        monkeypatch.setattr(gpu, "row_lanes", lambda rows, words, device: lanes)
        case = make_case(self.kernel, dims, dtype=np.float32)
        assert_matches_spec(self.kernel, dims, wgsl.run_kernel(self.kernel, case, device_with(subgroups=True)))
