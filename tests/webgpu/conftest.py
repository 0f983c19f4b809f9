import sys
from pathlib import Path

import pytest

from tinygpt.engines.runner import Runner, find_chromium

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "kernels"))  # the one table of kernel cases


@pytest.fixture(scope="session")
def gpu_chromium():
    """Chromium on SwiftShader, so that results do not depend on the machine."""
    if find_chromium() is None:
        pytest.skip("Chromium is not installed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TINYGPT_WEBGPU_ADAPTER", "swiftshader")
        runner = Runner("chromium")
    yield runner
    runner.close()
