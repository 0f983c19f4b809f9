"""Every kernel's specification by name: the living definition that the fast engines agree with.

A function takes the names of its line in `core/ops` as keywords: arrays in their shapes, absent
ones None, dims and scalars as numbers. It writes its outputs in place and computes in the arrays' own dtype.
It stands in the file of the same stem as its declaration. All of this also runs in the tab (tinygpt/labs/arrays).
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec

from tinygpt.core import ops
from tinygpt.core.ops.op import KERNELS

STEMS = [stem for stem in ops.__dict__ if not stem.startswith("_") and find_spec(f"tinygpt.kernels.{stem}")]
FAMILIES = [import_module(f"tinygpt.kernels.{stem}") for stem in STEMS]
SPEC: dict[str, Callable[..., None]] = {
    kernel: getattr(family, kernel) for kernel in KERNELS for family in FAMILIES if hasattr(family, kernel)
}
