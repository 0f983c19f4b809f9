import sys
from pathlib import Path

import pytest

from tinygpt.engines.runner import Runner, find_chromium

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "kernels"))  # the one table of kernel cases
sys.path.insert(0, str(Path(__file__).parents[1] / "formats"))  # sample files, good and bad


@pytest.fixture(scope="session")
def node():
    runner = Runner("node")
    yield runner
    runner.close()


@pytest.fixture(scope="session")
def chromium():
    if find_chromium() is None:
        pytest.skip("Chromium is not installed")
    runner = Runner("chromium")
    yield runner
    runner.close()
