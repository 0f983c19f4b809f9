"""What a model may be named by."""

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "formats"))
from format_samples import assert_same, sample_checkpoint

from tinygpt.core.errors import TinyGPTError
from tinygpt.store import bundled as zoo
from tinygpt.store.formats import save_huggingface, save_tinygpt
from tinygpt.store.naming import load_model, locate


@pytest.fixture
def run(tmp_path):
    """A run folder without a checkpoint."""
    folder = tmp_path / "run"
    (folder / "checkpoints").mkdir(parents=True)
    (folder / "config.toml").write_text("")
    return folder


def save(run, name, seed):
    checkpoint = sample_checkpoint(seed=seed)
    save_tinygpt(run / f"checkpoints/{name}.tinygpt", checkpoint)
    return checkpoint


def test_a_run_is_its_best_checkpoint_and_others_by_name(run):
    with pytest.raises(TinyGPTError, match="run: this run has no checkpoint yet"):
        load_model(run)
    last = save(run, "last", 1)
    assert_same(last, load_model(run))
    best, kept = save(run, "best", 2), save(run, "step-000500", 3)
    assert_same(best, load_model(run))
    for which, checkpoint in (("best", best), ("last", last), ("500", kept), ("000500", kept)):
        assert_same(checkpoint, load_model(f"{run}@{which}"))
        assert locate(f"{run}@{which}").run == run
    for which in ("600", "worst", ""):
        with pytest.raises(TinyGPTError, match=f"no checkpoint '{which}'; it has best, last, 500"):
            load_model(f"{run}@{which}")


def test_a_checkpoint_knows_its_run_and_a_file_of_its_own_has_none(run, tmp_path):
    save(run, "last", 1)
    inside, outside = run / "checkpoints/last.tinygpt", tmp_path / "checkpoints"
    assert locate(inside) == (inside, run)
    outside.mkdir()
    os.link(inside, outside / "last.tinygpt")
    assert locate(outside / "last.tinygpt").run is None
    save_huggingface(tmp_path / "hf", sample_checkpoint())
    assert locate(tmp_path / "hf") == (tmp_path / "hf", None)


def test_models_by_name_come_behind_paths(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    named, own = sample_checkpoint(seed=5), sample_checkpoint(seed=6)
    (tmp_path / "packaged").mkdir()
    save_tinygpt("packaged/bard.tinygpt", named)
    monkeypatch.setattr(zoo, "FOLDER", tmp_path / "packaged")
    assert_same(named, load_model("bard"))
    with pytest.raises(TinyGPTError, match="no such file, and no model of that name; did you mean 'bard'"):
        load_model("bardd")
    save_tinygpt("bard", own)
    assert_same(own, load_model("bard"))
    save_tinygpt("run@last", own)  # a name as any other
    save(run, "last", 7)
    assert_same(own, load_model("run@last"))
