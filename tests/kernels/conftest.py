from types import ModuleType

import pytest


@pytest.fixture(scope="session")
def wgsl() -> ModuleType:
    """Kernels on a GPU, where there is an adapter."""
    return pytest.importorskip("harness_wgsl")
