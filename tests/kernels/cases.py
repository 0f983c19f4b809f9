"""Cases of kernels: a call's arguments made up from its sizes, and what it wrote held against the specification.

    case = make_case(kernel, dims, dtype=np.float32)
    outputs = ...                                    # an engine's, by the signature's names
    assert_matches_spec(kernel, dims, outputs)       # against the spec in float64, within the kernel's bound

All numbers of a case are float32 numbers, whatever its dtype, so that both sides start from the same ones. Whole
numbers must come out exactly. What a kernel must overwrite, or must not read, is NaN or UNSET beforehand.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from words import apart, tensor_of

from tinygpt.core.ops.op import KERNELS, Op, Tensor, bits_float, float_bits
from tinygpt.kernels.spec import SPEC
from tinygpt.labs.rounding import SMALLEST, U

if TYPE_CHECKING:
    from kernel_tests import KernelTests

Dims = dict[str, Any]
Case = dict[str, Any]

UNSET = 0x5A5A5A5A  # of whole numbers
MADE: dict[Any, Any] = {}  # about 200 MB, once every case was made
TESTS: dict[str, KernelTests] = {}  # by kernel; the files in ops/ fill it (see all_cases.py)


def case_id(dims: Dims) -> str:
    short = {name: number for name, number in dims.items() if not isinstance(number, list) or len(number) <= 4}
    return "-".join(f"no_{name}" if number is None else f"{name}{number}" for name, number in short.items())


def once(key: Any, make: Callable[[], Any]) -> Any:
    """What a test of the same case has made in this process, or else what `make` makes. Nobody writes to it."""
    if key not in MADE:
        MADE[key] = make()
    return MADE[key]


def make_case(kernel: str, dims: Dims, dtype: Any = np.float64) -> Case:
    """All arguments of one call. Outputs hold what is there before it: a number to add to, or NaN.

    All numbers are float32 numbers in either dtype. They are drawn once; each caller gets arrays of its own.
    """
    case: Case = {}
    for name, value in once((kernel, repr(dims), "drawn"), lambda: draw_case(kernel, dims)).items():
        case[name] = value.astype(dtype) if is_float(value) else np.copy(value) if is_array(value) else value
        if is_float(value) and f"{name}_pitch" in dims:
            case[name] = apart(case[name], dims[f"{name}_pitch"], dims[f"{name}_offset"])
    return case


def draw_case(kernel: str, dims: Dims) -> Case:
    signature, tests = KERNELS[kernel], TESTS[kernel]
    random = np.random.default_rng([0, 1, *kernel.encode()])
    call = call_of(kernel, dims)
    case: Case = dict(zip(signature.dims, call.dims, strict=True))
    for name, bits in zip(signature.scalars, call.scalars, strict=True):
        case[name] = bits_float(bits)
    updated = call.updated()
    for name, tensor in zip(signature.tensors, call.tensors, strict=True):
        if tensor is None:
            case[name] = None
        elif name in signature.inputs or name in updated:
            case[name] = drawn(kernel, name, tensor, dims, random)
        else:
            case[name] = np.full(tensor.shape, UNSET if tensor.dtype == "i32" else np.nan)
    tests.settle(case)
    return {name: value.astype(np.float32) if is_float(value) else value for name, value in case.items()}


def drawn(kernel: str, name: str, tensor: Tensor, dims: Dims, random: np.random.Generator) -> Any:
    normal = random.standard_normal(tensor.shape)
    fills = TESTS[kernel].fills
    if name in dims:
        return np.array(dims[name], np.int64).reshape(tensor.shape)
    if name in fills:
        return fills[name](normal, dims, random)
    if tensor.dtype == "f32":
        return normal
    if tensor.dtype == "f16":
        return normal.astype(np.float16)
    if tensor.dtype == "i8":
        return random.integers(-127, 127, tensor.shape, np.int8, endpoint=True)
    return random.integers(0, dims.get("V", 256), tensor.shape, np.uint8 if tensor.dtype == "u8" else np.int64)


def is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray)


def is_float(value: Any) -> bool:
    """Whether it is one to compute with; float16 is what weights are kept in."""
    return is_array(value) and value.dtype.kind == "f" and value.dtype != np.float16


def is_gradient(kernel: str, name: str) -> bool:
    return name == "grads" or (name in KERNELS[kernel].updated and name.startswith("d") and name != "dx")


def call_of(kernel: str, given: Case | Dims) -> Op:
    """The call of a case, or of one that has these dims."""
    signature, tests = KERNELS[kernel], TESTS[kernel]

    def tensor(name: str) -> Tensor | None:
        if name in given and given[name] is None:
            return None
        kind, dtype = "grad" if is_gradient(kernel, name) else "temp", signature.dtypes.get(name, "f32")
        if isinstance(given.get(name), np.ndarray):
            return tensor_of(name, given[name], kind, dtype)
        shape = tests.shape(name, given)
        if f"{name}_pitch" in given:
            wide = Tensor(name, (shape[0], given[f"{name}_pitch"]), kind, dtype)
            return wide.columns(given[f"{name}_offset"], shape[1])
        return Tensor(name, shape, kind, dtype)

    tensors = [tensor(name) for name in signature.tensors]
    numbers = signature.defaults | tests.scalars | given
    scalars = [float_bits(numbers[name]) for name in signature.scalars]
    return Op(kernel, tensors, [numbers[name] for name in signature.dims], scalars)


def run_spec(kernel: str, case: Case) -> dict[str, Any]:
    """The outputs of the specification, in the case's dtype; the case is left as it was."""
    arguments = {name: value.copy() if isinstance(value, np.ndarray) else value for name, value in case.items()}
    SPEC[kernel](**arguments)
    return {name: arguments[name] for name in KERNELS[kernel].outputs if arguments[name] is not None}


def error_bound(kernel: str, case: Case) -> dict[str, Any]:
    """For each output of floats the case has, an array of the largest error that rounding can explain."""
    tests = TESTS[kernel]
    least = 0 if tests.exact else SMALLEST
    return {name: bound + least for name, bound in tests.bound(**case).items() if case[name] is not None}


def specified(kernel: str, dims: Dims) -> tuple[dict[str, Any], dict[str, Any]]:
    """The outputs of a case in float64, and their error bounds."""

    def make() -> Any:
        case = make_case(kernel, dims)
        return run_spec(kernel, case), error_bound(kernel, case)

    return once((kernel, repr(dims), "specified"), make)  # type: ignore[no-any-return]


def assert_matches_spec(kernel: str, dims: Dims, outputs: dict[str, Any], unit: float = U, where: str = "") -> None:
    """Every output that `make_case(kernel, dims)` has, within the rounding errors of float32.

    The bounds are of first order in the unit roundoff, so another precision's are theirs in proportion.
    """
    expected, bounds = specified(kernel, dims)
    bounds = {name: bound * (unit / U) for name, bound in bounds.items()}
    assert set(bounds) == {name for name, wanted in expected.items() if is_float(wanted)}
    for name, wanted in expected.items():
        call = f"{kernel} {dims}{where}: {name}"
        if name not in bounds:
            assert np.array_equal(np.reshape(outputs[name], wanted.shape), wanted), call
            continue
        got = np.asarray(outputs[name], dtype=np.float64).reshape(wanted.shape)
        untouched = np.isnan(wanted) & np.isnan(got)  # cache rows that are not there yet
        excess = np.where(untouched, 0, np.abs(got - wanted) / np.maximum(bounds[name], SMALLEST))
        excess = np.where(np.isnan(excess), np.inf, excess)
        worst = np.unravel_index(np.argmax(excess), excess.shape)
        assert excess[worst] <= 1, (
            f"{call}{[int(i) for i in worst]} is {got[worst]}, not {wanted[worst]}: off by "
            f"{abs(got[worst] - wanted[worst]):.3g}, {excess[worst]:.3g} times the bound; "
            f"{int((excess > 1).sum())} of {excess.size} entries are wrong"
        )
