"""Loading by what is there, writing as a name ends, and inspecting."""

import json

import numpy as np
import pytest
from format_samples import MODEL, OriginalFile, assert_same, sample_checkpoint

from tinygpt.core.errors import TinyGPTError
from tinygpt.core.models.parameters import parameter_count
from tinygpt.store.formats import inspect_model, load_file, read_header, save_huggingface, save_model, save_tinygpt


def test_a_tinygpt_file_may_have_any_name(tmp_path):
    save_tinygpt(tmp_path / "model.bin", sample_checkpoint())
    assert_same(sample_checkpoint(), load_file(tmp_path / "model.bin"))


def test_what_is_no_model(tmp_path):
    (tmp_path / "notes.txt").write_text("hello")
    (tmp_path / "broken.tinygpt").write_text("hello")
    (tmp_path / "broken.safetensors").write_text("hello")
    for name, fault in (
        ("none", "no such file"),
        ("", "neither a run"),
        ("notes.txt", "neither a .tinygpt nor a .safetensors"),
        ("broken.tinygpt", "does not start with"),
        ("broken.safetensors", "no sound safetensors"),
    ):
        with pytest.raises(TinyGPTError, match=fault):
            load_file(tmp_path / name)


def test_around_every_format_and_back(tmp_path):
    save_tinygpt(tmp_path / "a.tinygpt", sample_checkpoint())
    assert save_model(tmp_path / "b.safetensors", load_file(tmp_path / "a.tinygpt")) == "safetensors"
    assert save_model(tmp_path / "c", load_file(tmp_path / "b.safetensors"), format="huggingface") == "huggingface"
    assert save_model(tmp_path / "d.tinygpt", load_file(tmp_path / "c")) == "tinygpt"
    assert_same(sample_checkpoint(), load_file(tmp_path / "d.tinygpt"), optimizer=False)


def test_tinygpt_to_tinygpt_keeps_or_drops_the_optimizer(tmp_path):
    original = OriginalFile()
    (tmp_path / "old.tinygpt").write_bytes(original.v1())
    save_model(tmp_path / "new.tinygpt", load_file(tmp_path / "old.tinygpt"))
    original.assert_loaded(load_file(tmp_path / "new.tinygpt"))
    save_model(tmp_path / "new.tinygpt", load_file(tmp_path / "new.tinygpt"), include_optimizer=False)
    assert read_header(tmp_path / "new.tinygpt")["includesOptimizerState"] is False


def test_a_target_that_tells_no_format(tmp_path):
    with pytest.raises(TinyGPTError, match="does not tell the format"):
        save_model(tmp_path / "folder", sample_checkpoint())
    with pytest.raises(TinyGPTError, match="there is no format 'onnx'"):
        save_model(tmp_path / "b", sample_checkpoint(), format="onnx")


def test_inspect_a_tinygpt_file(tmp_path):
    checkpoint = sample_checkpoint()
    path = tmp_path / "a.tinygpt"
    save_tinygpt(path, checkpoint)
    facts = json.loads(json.dumps(inspect_model(path), allow_nan=False))
    assert facts["format"] == "tinygpt" and facts["version"] == 2 and facts["layout"] == "out_in"
    assert facts["file_bytes"] == path.stat().st_size
    assert facts["has_optimizer"] is True and facts["sha256_ok"] is True
    assert facts["config"] == checkpoint.config.as_dict()
    assert facts["parameter_count"] == parameter_count(MODEL) == sum(np.prod(t["shape"]) for t in facts["tensors"])
    assert facts["loss_history"][0] == [1, 5.5 - 1 / 13] and facts["sample"] == checkpoint.progress.sample
    embedding = checkpoint.state.w[: 256 * 4].astype(np.float64)
    tensor = facts["tensors"][0]
    assert tensor["name"] == "token_embedding.weight" and tensor["shape"] == [256, 4]
    assert tensor["mean"] == pytest.approx(embedding.mean()) and tensor["std"] == pytest.approx(embedding.std())
    assert (tensor["min"], tensor["max"]) == (embedding.min(), embedding.max())


def test_inspect_reports_damage(tmp_path):
    path = tmp_path / "a.tinygpt"
    save_tinygpt(path, sample_checkpoint(), include_optimizer=False)
    path.write_bytes(path.read_bytes()[:-4] + np.float32(np.nan).tobytes())
    facts = inspect_model(path)
    assert facts["sha256_ok"] is False
    assert [tensor["finite"] for tensor in facts["tensors"][-2:]] == [True, False]


def test_inspect_the_others(tmp_path):
    (tmp_path / "old.tinygpt").write_bytes(OriginalFile(optimizer=False).v1())
    facts = inspect_model(tmp_path / "old.tinygpt")
    assert (facts["version"], facts["layout"], facts["sha256_ok"], facts["has_optimizer"]) == (1, None, None, False)
    save_huggingface(tmp_path / "hf", sample_checkpoint())
    facts = inspect_model(tmp_path / "hf")
    assert (facts["format"], facts["has_optimizer"], facts["step"]) == ("huggingface", False, 40)
