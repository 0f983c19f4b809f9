from pathlib import Path

import pytest

SHARING = ("wasm", "webgpu")  # folders whose tests share a runner: one worker of pytest-xdist runs all of a folder


def pytest_collection_modifyitems(items):
    for item in items:
        folder = item.path.relative_to(Path(__file__).parent).parts[0]
        if folder in SHARING:
            item.add_marker(pytest.mark.xdist_group(folder))
