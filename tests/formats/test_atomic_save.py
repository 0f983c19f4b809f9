"""A save that fails or is killed leaves the file before it whole, and nothing else."""

import os
import signal
import stat
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest
from format_samples import assert_same, sample_checkpoint

import tinygpt.store.formats.tinygpt_file as tinygpt_file
from tinygpt.core.config import ModelConfig
from tinygpt.core.errors import TinyGPTError
from tinygpt.store.formats import load_tinygpt, save_huggingface, save_safetensors, save_tinygpt

SAVERS = {"tinygpt": save_tinygpt, "safetensors": save_safetensors, "huggingface": save_huggingface}
BIG = ModelConfig(layers=2, d_model=64, heads=2, ctx=16)


def child(code: str, *arguments: object) -> subprocess.Popen:
    prelude = f"""
        import sys
        sys.path.insert(0, {os.path.dirname(__file__)!r})
        from format_samples import sample_checkpoint
        from tinygpt.core.config import ModelConfig
        from tinygpt.core.errors import TinyGPTError
        import tinygpt.store.formats.tinygpt_file as tinygpt_file
        from tinygpt.store.formats import save_huggingface, save_safetensors, save_tinygpt
        BIG = ModelConfig(layers=2, d_model=64, heads=2, ctx=16)
    """
    program = textwrap.dedent(prelude) + textwrap.dedent(code)
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_killed_in_the_middle_of_a_write(tmp_path):
    path = tmp_path / "last.tinygpt"
    before = sample_checkpoint(BIG, seed=1)
    save_tinygpt(path, before)
    writer = child(
        """
        import time
        honest = tinygpt_file.require_finite
        def pausing(name, values):
            if name == "blocks.1.mlp.fc_out.weight":
                print("half", flush=True)
                time.sleep(60)
            honest(name, values)
        tinygpt_file.require_finite = pausing
        save_tinygpt(sys.argv[1], sample_checkpoint(BIG, seed=2))
        """,
        path,
    )
    assert writer.stdout.readline() == "half\n"
    writer.send_signal(signal.SIGKILL)
    writer.wait()
    [leftover] = [name for name in os.listdir(tmp_path) if name != path.name]
    assert (tmp_path / leftover).stat().st_size > 100_000
    assert_same(before, load_tinygpt(path))

    long_ago = time.time() - 7200
    os.utime(tmp_path / leftover, (long_ago, long_ago))
    after = sample_checkpoint(BIG, seed=3)
    save_tinygpt(path, after)
    assert_same(after, load_tinygpt(path))
    assert os.listdir(tmp_path) == [path.name]


@pytest.mark.parametrize("delay", [0.003, 0.02])
def test_killed_at_any_time_while_saving_over_and_over(tmp_path, delay):
    path = tmp_path / "last.tinygpt"
    candidates = [sample_checkpoint(BIG, seed=seed) for seed in (1, 2)]
    writer = child(
        """
        candidates = [sample_checkpoint(BIG, seed=seed) for seed in (1, 2)]
        save_tinygpt(sys.argv[1], candidates[0])
        print("go", flush=True)
        while True:
            for candidate in candidates:
                save_tinygpt(sys.argv[1], candidate)
        """,
        path,
    )
    assert writer.stdout.readline() == "go\n"
    for _ in range(20):
        loaded = load_tinygpt(path)  # a reader beside the writer sees whole files only
        assert any(np.array_equal(loaded.state.w, candidate.state.w) for candidate in candidates)
    time.sleep(delay)
    writer.send_signal(signal.SIGKILL)
    writer.wait()
    loaded = load_tinygpt(path)
    assert any(np.array_equal(loaded.state.w, candidate.state.w) for candidate in candidates)


@pytest.mark.parametrize("kind", SAVERS)
def test_no_room_left(tmp_path, kind):
    target = tmp_path / f"model.{kind}"
    before = sample_checkpoint(BIG, seed=1)
    SAVERS[kind](target, before)
    files = sorted(tmp_path.rglob("*"))
    contents = [file.read_bytes() for file in files if file.is_file()]
    writer = child(
        """
        import resource
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
        try:
            globals()["save_" + sys.argv[2]](sys.argv[1], sample_checkpoint(BIG, seed=2))
        except TinyGPTError as fault:
            print("refused:", fault)
        """,
        target,
        kind,
    )
    said, _ = writer.communicate(timeout=600)
    assert writer.returncode == 0
    assert said.startswith(f"refused: {target}") and "cannot write" in said and "too large" in said
    assert sorted(tmp_path.rglob("*")) == files
    assert [file.read_bytes() for file in files if file.is_file()] == contents


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
def test_full_disk_is_named(tmp_path, monkeypatch):
    def write_to_full_disk(*_):
        with open("/dev/full", "wb", buffering=0) as full:
            full.write(b"x")

    monkeypatch.setattr(tinygpt_file, "write_state", write_to_full_disk)
    with pytest.raises(TinyGPTError, match=r"a\.tinygpt: cannot write it: No space left on device"):
        save_tinygpt(tmp_path / "a.tinygpt", sample_checkpoint())
    assert os.listdir(tmp_path) == []


def test_interrupted_save_cleans_up(tmp_path, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(tinygpt_file, "write_state", interrupt)
    with pytest.raises(KeyboardInterrupt):
        save_tinygpt(tmp_path / "a.tinygpt", sample_checkpoint())
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("kind", SAVERS)
def test_places_that_take_no_file(tmp_path, kind, monkeypatch):
    (tmp_path / "file").write_text("x")
    for place in ("file/model", "" if kind != "huggingface" else "file", "n" * 300):
        with pytest.raises(TinyGPTError) as caught:
            SAVERS[kind](tmp_path / place, sample_checkpoint())
        assert str(caught.value).startswith(str(tmp_path / place))

    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(TinyGPTError, match="cannot write it: Permission denied"):
        SAVERS[kind](tmp_path / "model", sample_checkpoint())
    assert [file for file in tmp_path.rglob("*") if file.is_file()] == [tmp_path / "file"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_folder_without_permission(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(TinyGPTError, match="Permission denied"):
        save_tinygpt(tmp_path / "a.tinygpt", sample_checkpoint())


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "real.tinygpt").write_bytes(b"old")
    (tmp_path / "link.tinygpt").symlink_to("real.tinygpt")
    save_tinygpt(tmp_path / "link.tinygpt", sample_checkpoint())
    assert (tmp_path / "link.tinygpt").is_symlink()
    assert_same(sample_checkpoint(), load_tinygpt(tmp_path / "real.tinygpt"))


@pytest.mark.parametrize("kind", SAVERS)
def test_a_diverged_model_does_not_replace_a_good_one(tmp_path, kind):
    target = tmp_path / "model"
    good, bad = sample_checkpoint(), sample_checkpoint()
    SAVERS[kind](target, good)
    contents = {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    bad.state.w[-1] = np.nan
    with pytest.raises(TinyGPTError, match="diverged"):
        SAVERS[kind](target, bad)
    assert {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()} == contents


def test_a_state_that_does_not_fit_the_config(tmp_path):
    sample = sample_checkpoint()
    for state in (
        sample.state._replace(w=sample.state.w[:-1]),
        sample.state._replace(slots={"m": sample.state.slots["m"]}),
        sample.state._replace(slots={**sample.state.slots, "v": sample.state.w[:-1]}),
        sample.state._replace(step=-1),
        sample.state._replace(step=2**31),
    ):
        with pytest.raises(TinyGPTError):
            save_tinygpt(tmp_path / "a", sample.__class__(sample.config, state))
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("save", SAVERS.values(), ids=SAVERS.keys())
@pytest.mark.parametrize("umask", [0o022, 0o027])
def test_a_file_has_the_rights_that_the_umask_leaves(tmp_path, save, umask):
    before = os.umask(umask)
    try:
        save(tmp_path / "model", sample_checkpoint())
    finally:
        os.umask(before)
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {stat.S_IMODE(path.stat().st_mode) for path in written} == {0o666 & ~umask}
