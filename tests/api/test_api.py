"""The Python interface: its documentation runs, and says what the command line says."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tinygpt
from tinygpt.api.progress import Curve
from tinygpt.api.progress import display as display_of
from tinygpt.api.settings import RunSettings, TrainSettings
from tinygpt.core.config import ModelConfig, SampleConfig, TrainConfig
from tinygpt.core.engine.contract import run_now
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.presets import preset
from tinygpt.core.write.sampler import generate
from tinygpt.store.runs import RunFolder

ROOT = Path(__file__).parents[2]
TEXT = "the big cat sat on the old mat. é \n" * 60
LEAST = {"preset": "tiny", "recipe": "classic", "layers": 1, "d_model": 16, "heads": 2, "ctx": 16, "batch": 4}


@pytest.fixture(scope="module")
def model() -> tinygpt.Model:
    return tinygpt.train(TEXT, **LEAST, steps=40, lr=3e-3, eval_every=20, sample_every=0, threads=1)


def test_every_line_of_the_documentation_runs(tmp_path: Path) -> None:
    """In the order of the page, as one program."""
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs/api.md").read_text(encoding="utf-8"), re.M | re.S)
    program = "\n".join(blocks)
    environment = {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert len(blocks) >= 6 and "<Model: 2 layers" in done.stdout and "validation loss" in done.stdout


def test_a_trained_model_is_the_best_one_and_writes_what_the_engine_does(model: tinygpt.Model) -> None:
    assert model.config.train.steps == 40 and model.progress.best_step in (20, 40)
    settings = SampleConfig(tokens=60, temperature=0.5, seed=9)
    made = run_now(generate(model.engine, 16, b"the ", settings))
    pieces = list(model.stream("the ", tokens=60, temperature=0.5, seed=9))
    assert "".join(pieces) == made.decode("utf-8", "replace") and len(pieces) > 1
    assert model.generate("the ", tokens=60, temperature=0.5, seed=9) == "".join(pieces)
    several = model.generate("the ", tokens=60, temperature=0.5, seed=9, count=10)
    assert several == [model.generate("the ", tokens=60, temperature=0.5, seed=9 + i) for i in range(10)]
    stop = made[4:6].decode("ascii")
    cut = model.generate("the ", tokens=60, temperature=0.5, seed=9, stop=["nowhere", stop])
    assert cut.endswith(stop) and "".join(pieces).startswith(cut)


def test_its_numbers_agree(model: tinygpt.Model) -> None:
    likely = model.next_bytes("the big c")
    assert likely.shape == (256,) and abs(float(likely.sum()) - 1) < 1e-5
    loss = model.evaluate("the big ca").per_byte[-1]
    assert abs(float(-np.log(likely[ord("a")])) - float(loss)) < 1e-4


def test_a_file_of_it_is_the_same_model(model: tinygpt.Model, tmp_path: Path) -> None:
    model.save(tmp_path / "m.tinygpt")
    with tinygpt.load(tmp_path / "m.tinygpt", threads=1) as same:
        assert (same.weights == model.weights).all() and same.config == model.config
        assert same.generate("a", tokens=20) == model.generate("a", tokens=20)
    model.save(tmp_path / "half.tinygpt", dtype="float16")
    assert (tmp_path / "half.tinygpt").stat().st_size < 0.3 * (tmp_path / "m.tinygpt").stat().st_size


def test_an_adapter_is_trained_kept_and_put_on_again(model: tinygpt.Model, tmp_path: Path) -> None:
    before = model.weights.tobytes()
    other = "a small dog ran from the red car. \n" * 60
    settings = {"steps": 30, "lr": 1e-2, "eval_every": 15, "sample_every": 0, "threads": 1}
    adapted = tinygpt.train(other, init_from=model, lora={"rank": 2}, **settings)
    assert model.weights.tobytes() == before and (adapted.weights != model.weights).any()
    assert adapted.evaluate(other[:200]).loss < model.evaluate(other[:200]).loss
    model.save(tmp_path / "m.tinygpt")
    adapted.save_adapter(tmp_path / "a.safetensors")
    again = tinygpt.load(tmp_path / "m.tinygpt", adapter=tmp_path / "a.safetensors", threads=1)
    assert again.weights.tobytes() == adapted.weights.tobytes()
    with pytest.raises(TinyGPTError, match="pass init_from"):
        tinygpt.train(other, lora={})
    with pytest.raises(TinyGPTError, match="no adapter was trained"):
        model.save_adapter(tmp_path / "b.safetensors")


def test_it_goes_on_from_a_model_and_is_stopped(model: tinygpt.Model) -> None:
    events: list[dict[str, object]] = []

    def first_ten(event: dict[str, object]) -> bool:
        events.append(event)
        return event.get("step") != 10 or event["event"] != "step"

    tuned = tinygpt.train(
        TEXT, init_from=model, steps=400, on_event=first_ten, threads=1, validation="the old cat sat. " * 9
    )
    assert tuned.config.model == model.config.model and 10 <= tuned.progress.step < 400
    assert {event["event"] for event in events} >= {"step", "checkpoint"}
    with pytest.raises(TinyGPTError, match="keeps its shape"):
        tinygpt.train(TEXT, init_from=model, preset="small")


def test_a_run_is_kept_in_a_folder_and_gone_on_with_bit_for_bit(tmp_path: Path) -> None:
    """As the command line makes it, and as if it had never been stopped; the text must be the same."""
    settings = LEAST | {"eval_every": 10, "sample_every": 0, "schedule": "constant", "threads": 1}
    through = tinygpt.train(TEXT, **settings, steps=30)

    def until_ten(event: dict[str, object]) -> bool:
        return event["event"] != "step" or event["step"] != 10

    folder = tmp_path / "run"
    tinygpt.train(TEXT, **settings, steps=30, out=folder, on_event=until_ten)
    told = subprocess.run(
        [sys.executable, "-m", "tinygpt", "train", "--resume", str(folder)], capture_output=True, text=True, check=False
    )
    assert told.returncode and "say with --file where that text is now" in told.stderr
    with pytest.raises(TinyGPTError, match="give it again"):
        tinygpt.resume(folder)
    with pytest.raises(TinyGPTError, match="is not the text of that run"):
        tinygpt.resume(folder, TEXT + "more")
    resumed = tinygpt.resume(folder, TEXT)
    assert resumed.progress.step == through.progress.step and resumed.source == str(folder)
    assert resumed.weights.tobytes() == through.weights.tobytes() == tinygpt.load(folder).weights.tobytes()
    steps = [event["step"] for event in RunFolder(folder).read_metrics() if event["event"] == "step"]
    assert steps == list(range(1, 31)) and (folder / "loss.png").exists()
    with pytest.raises(TinyGPTError, match="it is finished"):
        tinygpt.resume(folder, TEXT)
    with pytest.raises(TinyGPTError, match="holds a run already"):
        tinygpt.train(TEXT, **settings, out=folder)
    adapted = tinygpt.train(TEXT, init_from=resumed, lora={"rank": 1}, steps=4, out=tmp_path / "lora", threads=1)
    more = tinygpt.resume(tmp_path / "lora", TEXT, steps=6)
    assert adapted.progress.step == 4 and more.progress.step == 6 and more.adapter is not None
    with pytest.raises(TinyGPTError, match="save that model"):
        tinygpt.train(TEXT, init_from=through, steps=4, out=tmp_path / "other")


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda model: model.generate(5), "the prompt must be a string, not int"),
        (lambda model: model.generate("a", stop=5), "stop must be a string or a list of strings, not int"),
        (lambda model: model.generate("a", stop=[b"b"]), "stop must be a string or a list of strings, not bytes"),
        (lambda model: model.generate("a", count="2"), "count is how many texts are wanted, at least 1, not '2'"),
        (lambda model: model.generate(b"a", count=2), "the prompt must be a string, not bytes; decode the bytes first"),
        (lambda model: model.generate("a\ud800"), "cannot be written as UTF-8, because of U+D800 at position 1"),
        (lambda model: list(model.stream(b"a")), "the prompt must be a string, not bytes"),
        (lambda model: model.next_bytes(b""), "the prompt must be a string, not bytes"),
        (lambda model: model.next_bytes("\udfff"), "the prompt cannot be written as UTF-8, because of U+DFFF"),
        (lambda model: model.evaluate(7), "the text must be a string or bytes, not int"),
        (lambda model: model.evaluate("\ud800"), "the text cannot be written as UTF-8"),
        (lambda model: tinygpt.look(model, None), "the text must be a string or bytes, not NoneType"),
        (
            lambda model: tinygpt.look(model, "a fox", origins=1),
            "must be a string, bytes or a corpus, not int",
        ),
        (lambda model: tinygpt.train(123), "the text must be a string, bytes, a Path or a corpus, not int"),
        (lambda model: tinygpt.train("\ud800" * 99), "the text cannot be written as UTF-8, because of U+D800"),
        (
            lambda model: tinygpt.train("a", validation=1),
            "the text must be a string, bytes, a Path or a corpus, not int",
        ),
    ],
)
def test_what_is_no_text_is_one_sentence(model: tinygpt.Model, call: Any, sentence: str) -> None:
    with pytest.raises(TinyGPTError, match=re.escape(sentence)):
        call(model)


def test_settings_are_the_preset_s_by_the_recipe(model: tinygpt.Model) -> None:
    stopped = tinygpt.train(TEXT, preset="tiny", on_event=lambda event: False, threads=1)
    assert stopped.config == preset("tiny", "modern", len(TEXT)) != preset("tiny", "modern")
    stated = tinygpt.train(TEXT, preset="tiny", ngrams="2", on_event=lambda event: False, threads=1)
    assert stated.config == preset("tiny", "modern").replace(ngrams="2")  # whatever the text's length
    with pytest.raises(TinyGPTError, match="did you mean 'tiny'"):
        tinygpt.train(TEXT, preset="tinny")


def test_nothing_is_loaded_before_it_is_asked_for() -> None:
    program = "import sys, tinygpt; assert 'numpy' not in sys.modules; tinygpt.load; assert 'torch' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
    with pytest.raises(AttributeError, match="no attribute 'lode'"):
        _ = tinygpt.lode  # type: ignore[attr-defined]


def test_a_notebook_gets_one_picture_that_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[object] = []

    class Handle:
        def update(self, figure: object) -> None:
            shown.append(figure)

    def display(figure: object, display_id: bool) -> Handle:
        assert display_id and not shown
        shown.append(figure)
        return Handle()

    assert not isinstance(display_of(None, None), Curve)
    module = types.ModuleType("IPython.display")
    module.display = display  # type: ignore[attr-defined]
    package = types.ModuleType("IPython")
    package.version_info = (9, 0)  # type: ignore[attr-defined]  # matplotlib looks at it
    package.get_ipython = lambda: types.SimpleNamespace(kernel=True)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", package)
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    curve = tinygpt.LiveCurve()
    tinygpt.train(TEXT, **LEAST, steps=30, eval_every=10, sample_every=0, on_event=curve, threads=1)
    assert len(shown) >= 3 and [step for step, _ in curve.train] == list(range(1, 31))
    assert isinstance(display_of(None, None), Curve) and not isinstance(display_of(None, curve), Curve)
    monkeypatch.setitem(sys.modules, "IPython", None)
    drawn = len(shown)
    curve({"event": "eval", "step": 31, "val_loss": 2.0})
    assert len(shown) == drawn and curve.figure().axes


def test_progress_is_shown_where_somebody_looks(capsys: pytest.CaptureFixture[str]) -> None:
    tinygpt.train(TEXT, **LEAST, steps=20, eval_every=10, sample_every=0, threads=1)
    assert capsys.readouterr().err == ""  # it is no terminal
    tinygpt.train(TEXT, **LEAST, steps=20, eval_every=10, sample_every=0, threads=1, progress=True)
    shown = capsys.readouterr()
    assert "20/20" in shown.err and re.search(r"loss \d\.\d{3}  val \d\.\d{3}", shown.err) and not shown.out


def test_minutes_choose_the_run() -> None:
    made = tinygpt.train(TEXT * 9, preset="tiny", minutes=0.1, threads=1, seed=7)
    assert made.config.train.seed == 7 and made.progress.step >= 20
    with pytest.raises(TinyGPTError, match="steps does not go with minutes"):
        tinygpt.train(TEXT, minutes=1, steps=5)


def test_a_string_may_name_a_file(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text(TEXT, encoding="utf-8")
    made = tinygpt.train(str(tmp_path / "notes.txt"), **LEAST, steps=2, threads=1)
    assert made.checkpoint.data["name"] == "notes.txt"
    with pytest.raises(TinyGPTError, match=r"there is no file 'other\.txt'; if that is the text itself"):
        tinygpt.train("other.txt")


def test_every_setting_has_a_name_in_the_signatures() -> None:
    model, train, sample = ({field.name for field in one.FIELDS} for one in (ModelConfig, TrainConfig, SampleConfig))
    assert set(TrainSettings.__annotations__) == train
    assert set(RunSettings.__annotations__) == train | model
    assert train | model < set(inspect.signature(tinygpt.train).parameters)
    assert train < set(inspect.signature(tinygpt.resume).parameters)
    for method in (tinygpt.Model.generate, tinygpt.Model.stream):
        stated = inspect.signature(method).parameters
        assert {name: stated[name].default for name in sample} == SampleConfig().as_dict()
    assert dir(tinygpt) == sorted(tinygpt.__all__) and tinygpt.TinyGPTError is TinyGPTError
    assert all(getattr(tinygpt, name) is not None for name in dir(tinygpt))


def test_weights_by_name_and_what_notebooks_show(model: tinygpt.Model, tmp_path: Path) -> None:
    q = model.weights["blocks.0.attn.q_proj.weight"]
    assert q.shape == (16, 16) and q.base is not None and "ln_final.bias" in model.weights.names()
    assert (model.weights[:4] == model.checkpoint.state.w[:4]).all()
    with pytest.raises(TinyGPTError, match=r"did you mean 'ln_final\.bias'"):
        model.weights["ln_final.bia"]
    assert "1 layer" in model._repr_html_() and repr(model.progress).startswith("<Progress: step ")
    look = tinygpt.look(model, "the big cat")
    assert repr(look).startswith("<Look at 11 bytes") and "<iframe" in look._repr_html_()
    model.save(tmp_path / "m.safetensors")
    assert tinygpt.load(tmp_path / "m.safetensors").weights.tobytes() == model.weights.tobytes()
    with pytest.raises(TinyGPTError, match="the name does not tell the format"):
        model.save(tmp_path / "m.bin")
