"""A Hub on this machine, and a client that keeps nothing of another test's."""

from collections.abc import Iterator
from pathlib import Path

import huggingface_hub.constants as constants
import pytest
from fake_hub import TOKEN, FakeHub


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    fake = FakeHub()
    monkeypatch.setenv("HF_ENDPOINT", fake.url)
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)  # that protocol's client is a binary of its own
    yield fake
    fake.close()
