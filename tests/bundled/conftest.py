"""A tiny model, trained and packed as the package's own are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tiny_sums import SUMS, zoo_command

from lab.bundled import table
from tinygpt.store import bundled as zoo


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that holds runs/zoo/tiny-sums and packed/, with the model and its card."""
    folder = tmp_path_factory.mktemp("zoo")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(zoo, "FOLDER", folder / "packed")
        patch.setattr(table, "PLANNED", (SUMS,))
        result = zoo_command("make", SUMS.name, "--engine", "native", "--threads", 1)
        assert result.exit_code == 0, (result.stderr, result.exception)
    return folder


@pytest.fixture
def packed(made: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The card; the model comes with the package."""
    monkeypatch.setattr(zoo, "FOLDER", made / "packed")
    return zoo.card_of(SUMS.name)
