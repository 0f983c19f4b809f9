"""The specification covers core/ops, name for name, and writes what it says it writes."""

import inspect

import numpy as np
import pytest
from cases import ALL_CASES, UNSET, case_id, make_case, op_of, run_spec
from error_bounds import U, error_bound

from tinygpt.core.ops import KERNEL_NAMES
from tinygpt.core.ops.op import KERNELS
from tinygpt.kernels.spec import SPEC


def test_every_kernel_is_specified():
    assert sorted(SPEC) == KERNEL_NAMES


@pytest.mark.parametrize("kernel", KERNEL_NAMES)
def test_parameters_are_the_signature(kernel):
    signature = KERNELS[kernel]
    parameters = inspect.signature(SPEC[kernel]).parameters
    assert list(parameters) == signature.tensors + signature.dims + signature.scalars
    assert all(parameter.kind is inspect.Parameter.KEYWORD_ONLY for parameter in parameters.values())
    optional = [name for name, parameter in parameters.items() if "None" in str(parameter.annotation)]
    assert optional == signature.optional


@pytest.mark.parametrize("kernel, dims", ALL_CASES, ids=case_id)
def test_inputs_are_left_alone_and_outputs_written_whole(kernel, dims):
    case = make_case(kernel, dims)
    inputs = KERNELS[kernel].inputs
    arguments = {name: value.copy() if isinstance(value, np.ndarray) else value for name, value in case.items()}
    for name in inputs:
        if arguments[name] is not None:
            arguments[name].flags.writeable = False
    assert SPEC[kernel](**arguments) is None
    for name in KERNELS[kernel].outputs:
        written = arguments[name]
        if written is not None and name.startswith("cache") and kernel == "attention_one":
            written = written[: dims["position"] + 1]
        assert written is None or (np.isfinite(written) & (written != UNSET)).all(), name


ACCUMULATING = [(kernel, dims) for kernel, dims in ALL_CASES if dims.get("accumulate") == 1]


@pytest.mark.parametrize("kernel, dims", ACCUMULATING, ids=case_id)
def test_accumulating_adds_what_overwriting_writes(kernel, dims):
    case = make_case(kernel, dims)
    names = [name for name in KERNELS[kernel].updated if case[name] is not None]
    before = {name: case[name] for name in names}
    added = run_spec(kernel, case)
    still_read = op_of(kernel, {**dims, "accumulate": 0}).updated()
    fresh = {name: np.full_like(case[name], 0 if name in still_read else np.nan) for name in names}
    written = run_spec(kernel, {**case, **fresh, "accumulate": 0})
    bounds = error_bound(kernel, case)
    for name in names:
        rounding = bounds[name] * (3 * 2.0**-53 / U)  # of either sum, and of the difference taken here
        assert (np.abs(added[name] - before[name] - written[name]) <= rounding).all(), name
