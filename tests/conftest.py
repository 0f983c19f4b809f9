"""What all tests share: signals as a terminal gives them, one thread per BLAS, runners, and where the time goes."""

import os
import signal
import sys
from pathlib import Path

# Workers share the cores: a BLAS with threads of its own would spin in each of them. This comes before NumPy.
for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

# A caller may forbid compiled modules to be kept: each process that a test starts would compile the package again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# A caller may ignore these (`nohup`, a shell's background job), and processes that tests start would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGTERM, signal.SIG_DFL)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

import pytest  # noqa: E402
from times import pytest_addoption, pytest_terminal_summary  # noqa: E402, F401

from tinygpt.engines.runner import Runner, find_chromium  # noqa: E402

SHARING = ("wasm", "webgpu", "bundled")  # folders whose tests share a runner or a model: they have one worker
# What one worker must do whole comes first, a browser's work beside a processor's; then single long tests.
FIRST = ["page", "wgpu", "page-kept", "wasm", "webgpu", "wheel", "distributed", "bundled", "test_sources.py"]


def pytest_xdist_auto_num_workers():
    """One more than there are cores: a test that drives a browser or waits for a process leaves its core idle."""
    return (os.cpu_count() or 1) + 1


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the groups
def pytest_collection_modifyitems(items):
    for item in items:
        folder = item.path.relative_to(Path(__file__).parent).parts[0]
        if folder in SHARING:
            item.add_marker(pytest.mark.xdist_group(folder))
    items.sort(key=place)


def pytest_collection_finish(session):
    """Tests of a group share a browser, a runner or compiled kernels: apart they would take three times as long."""
    apart = [item for item in session.items if item.get_closest_marker("xdist_group") and "@" not in item.nodeid]
    if getattr(session.config.option, "loadgroup", False) and apart:
        pytest.exit(
            "this pytest-xdist does not group tests under this pytest: install the versions of pyproject.toml", 1
        )


def place(item):
    group = item.get_closest_marker("xdist_group")
    name = group.args[0] if group else item.path.name
    return FIRST.index(name) if name in FIRST else len(FIRST)


def running(kind):
    """A runner that outlives the engines it is lent to."""
    runner = Runner(kind)
    runner.players = 1
    yield runner
    runner.close()


@pytest.fixture(scope="session")
def playwright():
    """The one of this process: there cannot be two."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as started:
        yield started


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
