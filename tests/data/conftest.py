"""A cache of its own for every test, and loopback datasets servers."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_datasets_server import FakeDatasetsServer


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    cache = tmp_path / "cache"
    monkeypatch.setenv("TINYGPT_CACHE", str(cache))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.delenv("HF_TOKEN", raising=False)
    return cache


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDatasetsServer]:
    fake = FakeDatasetsServer()
    monkeypatch.setenv("TINYGPT_HF_DATASETS_SERVER", fake.url)
    yield fake
    fake.close()


@pytest.fixture
def other_server() -> Iterator[FakeDatasetsServer]:
    fake = FakeDatasetsServer()
    yield fake
    fake.close()


@pytest.fixture(scope="session")
def package_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One cache for the whole run, shared by parallel workers, so that packages are downloaded once."""
    root = tmp_path_factory.getbasetemp()
    return (root.parent if root.name.startswith("popen-") else root) / "packages"
