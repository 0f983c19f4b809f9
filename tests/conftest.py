from pathlib import Path

import pytest

from tinygpt.engines.runner import Runner, find_chromium

SHARING = ("wasm", "webgpu")  # folders whose tests share a runner: one worker of pytest-xdist runs all of a folder


def pytest_collection_modifyitems(items):
    for item in items:
        folder = item.path.relative_to(Path(__file__).parent).parts[0]
        if folder in SHARING:
            item.add_marker(pytest.mark.xdist_group(folder))


def running(kind):
    """A runner that outlives the engines it is lent to."""
    runner = Runner(kind)
    runner.players = 1
    yield runner
    runner.close()


@pytest.fixture(scope="session")
def node():
    yield from running("node")


@pytest.fixture(scope="session")
def chromium():
    if find_chromium() is None:
        pytest.skip("Chromium is not installed")
    yield from running("chromium")


@pytest.fixture(scope="session")
def gpu_chromium():
    """Chromium on SwiftShader, so that results do not depend on the machine."""
    if find_chromium() is None:
        pytest.skip("Chromium is not installed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TINYGPT_WEBGPU_ADAPTER", "swiftshader")
        yield from running("chromium")
