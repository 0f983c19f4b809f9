"""Edits of the step: patches that apply, run in place of the package, and are on record in whatever comes of them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tinygpt import RELEASE, __version__
from tinygpt.cli.app import app
from tinygpt.core.edited import version_with
from tinygpt.core.errors import TinyGPTError
from tinygpt.edits import PACKAGE, edited_package, mutant_names, read_edit, ready_names
from tinygpt.edits.patch import parsed, patched

FAULTS = {"lost-gradient": "blocks.1.attn.o_proj.bias", "lost-mean-term": "blocks.1.mlp.fc_out.bias"}
SPEC = ["--engine", "spec"]  # nothing to compile
OF_PRESETS = ("narrow", "no-positions", "no-warm-up", "one-head", "post-norm", "relu", "untied")  # settings, no code
# Of each mutant the first gradient that is wrong, if any is.
WRONG = {
    "mutant-03": "token_embedding.weight",
    "mutant-04": "blocks.0.mlp.fc_out.bias",
    "mutant-05": "blocks.1.mlp.fc_out.bias",
    "mutant-06": "blocks.1.attn.k_proj.bias",
    "mutant-07": "blocks.1.attn.k_proj.bias",
    "mutant-08": "ln_final.bias",
    "mutant-09": "blocks.1.mlp.fc_out.bias",
}
# What is run by the edited package: the gradients, ten steps of a tiny model, what a file says, what the version is.
TRIAL = """
import hashlib, json
from tinygpt import __version__
from tinygpt.bench.gradients import check_gradients
from tinygpt.core.edited import EDIT
from tinygpt.core.engine.contract import run_now
from tinygpt.core.config import SampleConfig
from tinygpt.core.presets import preset
from tinygpt.core.write.sampler import generate
from tinygpt.engines.spec import spec_engine
from tinygpt.labs.room import Check
def in_the_tab():
    check, rows = Check(json.dumps({"preset": "tiny", "recipe": "modern"})), []
    while (row := json.loads(check.step())) is not None:
        rows.append(row)
    return [row["name"] for row in rows if not row["right"]]
text = b"the quick brown fox jumps over the lazy dog. " * 60
config = preset("tiny", "modern")
engine = spec_engine(config.replace(ngrams="", warmup=0, batch=8, lr=2e-3))
run_now(engine.load_corpus(text, b""))
run_now(engine.train(10))
losses = [row.loss for row in run_now(engine.read_metrics())]
wrong = [each.name for each in check_gradients(config, text) if not each.right]
state = run_now(engine.export_state()).w
written = run_now(generate(engine, config.model.ctx, b"the ", SampleConfig(tokens=60)))
print(json.dumps({"edit": EDIT, "version": __version__, "losses": losses, "wrong": wrong,
                  "state": hashlib.sha256(state.tobytes()).hexdigest(), "written": written.decode("latin-1"),
                  "in_the_tab": in_the_tab()}))
"""


@pytest.fixture(autouse=True, scope="module")
def cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TINYGPT_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


def python(folder, *words, cwd):
    return subprocess.run(
        [sys.executable, "-P", *words],
        env={**os.environ, "PYTHONPATH": str(folder)},
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
    )


def trial(folder, cwd):
    done = python(folder, "-c", TRIAL, cwd=cwd)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name in OF_PRESETS else []) for name in ready_names()]
)
def test_a_ready_edit_trains_and_its_gradients_are_as_it_says(name, tmp_path):
    edit = read_edit(name)
    said = trial(edited_package(edit), tmp_path)
    assert said["edit"] == edit.label and said["version"] == f"{RELEASE}+edit.{edit.label.split()[1]}"
    assert said["wrong"][:1] == ([FAULTS[name]] if name in FAULTS else [])
    assert said["in_the_tab"][:1] == said["wrong"][:1]
    assert said["losses"][-1] < said["losses"][0] - 0.1, said["losses"]


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    return trial(Path(__file__).parents[2], tmp_path_factory.mktemp("original"))


@pytest.mark.parametrize("name", mutant_names())
def test_a_mutant_is_at_fault_and_finite_differences_say_where(name, original, tmp_path):
    """Those whose gradients are right train to something else, or write something else."""
    said = trial(edited_package(read_edit(name)), tmp_path)
    assert original["wrong"] == []
    assert said["wrong"][:1] == ([WRONG[name]] if name in WRONG else [])
    assert said["in_the_tab"][:1] == said["wrong"][:1]
    differs = "written" if name == "mutant-14" else "state"
    assert said[differs] != original[differs]
    assert said["state"] == original["state"] or name != "mutant-14"


@pytest.mark.parametrize("name", ready_names() + mutant_names())
def test_every_edit_of_ours_fits_the_sources(name):
    for file, hunks in read_edit(name).files.items():
        before = (PACKAGE / file).read_text(encoding="utf-8")
        assert patched(before, hunks, file) != before


def test_a_mutant_tells_as_much_as_is_asked_for():
    def told(*flags):
        done = CliRunner().invoke(app, ["edits", "mutant-05", *flags])
        return " ".join(done.output.split())

    assert told().startswith("The curve looks right.") and "(medium; --hint 1 to 3, --answer)" in told()
    assert told("--hint", "3") == "What does a norm take out of a row before it scales it?"
    assert "layernorm_backward" in told("--answer") and "--- a/tinygpt/kernels/layernorm.py" in told("--answer")
    assert "there are hints 1 to 3, not 4" in told("--hint", "4")
    assert not any("kernels/" in told(*flags) for flags in [(), *[("--hint", str(i)) for i in (1, 2, 3)]])
    degrees = [line for name in mutant_names() for line in read_edit(name).about.splitlines() if "Degree" in line]
    assert len(mutant_names()) >= 12 and {line.split()[1] for line in degrees} == {"easy", "medium", "hard"}


def test_there_are_about_a_dozen_and_each_says_what_it_does():
    assert len(ready_names()) >= 12
    for name in ready_names():
        about = read_edit(name).about
        assert about.split("\n")[0].endswith(".") and len(about.split("\n")[0]) < 110


def diff(file, before, after):
    lines = [*["-" + line for line in before], *["+" + line for line in after]]
    return "\n".join([f"--- a/{file}", f"+++ b/{file}", f"@@ -2,{len(before)} +2,{len(after)} @@", *lines]) + "\n"


def test_a_patch_finds_lines_that_moved_and_none_that_changed():
    text = "a\nb\nc\nd\n"
    about, files = parsed("Why.\n\n" + diff("tinygpt/core/rng.py", ["b", "c"], ["x"]))
    assert about == "Why." and list(files) == ["core/rng.py"]
    (hunks,) = files.values()
    assert patched(text, hunks, "f") == "a\nx\nd\n"
    assert patched("new\nlines\nabove\n" + text, hunks, "f") == "new\nlines\nabove\na\nx\nd\n"
    with pytest.raises(TinyGPTError, match="f has changed: what the edit replaces at line 2 is no longer there"):
        patched("a\nB\nc\n", hunks, "f")


@pytest.mark.parametrize(
    "file, sentence",
    [
        ("tinygpt/../setup.py", "no source of TinyGPT's"),
        ("/etc/passwd", "no source of TinyGPT's"),
        ("tinygpt/core/new.py", "no source of TinyGPT's"),
        ("tinygpt/py.typed", "no source of TinyGPT's"),
        ("tinygpt/core/edited.py", "no source of TinyGPT's"),
    ],
)
def test_a_patch_changes_sources_of_the_package_and_nothing_else(file, sentence, tmp_path):
    patch = tmp_path / "evil.patch"
    patch.write_text(diff(file, ["b"], ["x"]))
    with pytest.raises(TinyGPTError, match=sentence):
        read_edit(str(patch))


@pytest.mark.parametrize("text", ["", "hello\n", "--- a/tinygpt/core/rng.py\n+++ b/tinygpt/core/rng.py\n"])
def test_what_changes_nothing_is_no_edit(text, tmp_path):
    patch = tmp_path / "empty.patch"
    patch.write_text(text)
    with pytest.raises(TinyGPTError, match="it changes nothing; an edit is a unified diff"):
        read_edit(str(patch))


def test_unknown_edits_are_refused_with_what_there_is():
    with pytest.raises(TinyGPTError, match="there is no edit 'no-residuals'; did you mean 'no-residual'"):
        read_edit("no-residuals")


def test_an_edit_is_on_record_in_models_and_capsules_and_a_run_goes_on_with_it_alone(tmp_path):
    patch = tmp_path / "mine.patch"
    patch.write_text((Path(__file__).parents[2] / "tinygpt/edits/ready/no-mlp.patch").read_text())
    here = Path(__file__).parents[2]
    tiny = ["--preset", "tiny", "--data", "shakespeare", "--out", "run", *SPEC]

    def tinygpt(*words):
        return python(here, "-m", "tinygpt", *words, cwd=tmp_path)

    done = tinygpt("train", *tiny, "--steps", "4", "--edit", str(patch))
    assert done.returncode == 0, done.stderr
    assert "mine.patch changes core/models/gpt.py of TinyGPT. It is code, and it runs here" in done.stderr
    label = read_edit(str(patch)).label
    assert label in tinygpt("inspect", "run").stdout
    assert f"it was trained with the edit {label} of TinyGPT's sources" in " ".join(
        tinygpt("sample", "run", "--tokens", "3", *SPEC).stderr.split()
    )
    refused = tinygpt("train", "--resume", "run", "--steps", "6")
    assert refused.returncode == 1 and "cannot go on here" in refused.stderr and "--edit mine" in refused.stderr
    assert tinygpt("capsule", "run", f"--edit={patch}").returncode == 0
    assert json.loads((tmp_path / "run/capsule.json").read_text())["tinygpt"].endswith("+edit." + label.split()[1])
    replayed = tinygpt("replay", "run/capsule.json", *SPEC)
    assert replayed.returncode != 0 and "Exactly equal" not in replayed.stdout
    assert "Exactly equal" in tinygpt("replay", "run/capsule.json", *SPEC, "--edit", str(patch)).stdout
    assert tinygpt("train", "--resume", "run", "--steps", "6", "--edit", str(patch)).returncode == 0
    missing = tinygpt("train", "--edit")
    assert missing.returncode == 1 and "--edit needs the name of an edit" in missing.stderr


def test_these_sources_are_not_edited():
    assert __version__ == RELEASE == version_with(RELEASE)
