"""The cases of every kernel, from the files in ops/."""

import importlib
import sys
from pathlib import Path

from cases import TESTS

OPS = Path(__file__).parent / "ops"
sys.path.insert(0, str(OPS))
for path in sorted(OPS.glob("test_*.py")):
    importlib.import_module(path.stem)

ALL_CASES = [(kernel, dims) for kernel, tests in TESTS.items() for dims in tests.cases]
CPP_CASES = [(kernel, dims) for kernel, tests in TESTS.items() for dims in tests.all_cpp_cases]
CPU_ONLY = [kernel for kernel, tests in TESTS.items() if not tests.on_gpu]
