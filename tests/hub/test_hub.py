"""Models on the Hugging Face Hub: pushed and fetched by its own client, from a server on this machine."""

from __future__ import annotations

import builtins
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from fake_hub import FakeHub

from tinygpt.core.errors import TinyGPTError
from tinygpt.core.hub.card import fenced, model_card, plain
from tinygpt.core.models.parameters import parameter_count
from tinygpt.store.bundled import named
from tinygpt.store.formats import load_file, load_safetensors
from tinygpt.store.naming import load_model, locate

sys.path.insert(0, str(Path(__file__).parents[1] / "cli"))
from cli_helpers import one_line_error, succeed, tinygpt


@pytest.fixture
def pushed(hub: FakeHub) -> FakeHub:
    said = succeed("push", "addition", "me/sums", "--title", "Sums").stdout
    assert f"Published at {hub.url}/me/sums." in said and "tinygpt sample hf:me/sums" in said
    return hub


def test_what_is_pushed_can_be_taken_by_name(pushed: FakeHub, tmp_path: Path) -> None:
    assert set(pushed.models["me/sums"]) == {"README.md", "model.tinygpt", "model.safetensors", "loss.png"}
    greedy = ["--greedy", "--tokens", "40", "--prompt", "12+34="]
    assert succeed("sample", "hf:me/sums", *greedy).stdout == succeed("sample", "addition", *greedy).stdout
    weights = load_file(named()["addition"]).state.w
    np.testing.assert_array_equal(load_model("hf:me/sums@main").state.w, weights)
    (tmp_path / "a.safetensors").write_bytes(pushed.models["me/sums"]["model.safetensors"])
    np.testing.assert_array_equal(load_safetensors(tmp_path / "a.safetensors").state.w, weights)
    asked = len(pushed.asked)
    assert locate("hf:me/sums").path == locate("hf:me/sums").path and len(pushed.asked) == asked + 2  # its cache
    del pushed.models["me/sums"]["model.tinygpt"]
    assert locate("hf:me/sums").path.suffix == ".safetensors"


def test_the_card_says_what_it_is_and_what_it_learned_from(pushed: FakeHub) -> None:
    card = pushed.models["me/sums"]["README.md"].decode()
    assert card.startswith("---\nlibrary_name: tinygpt\n") and "\n# Sums\n" in card
    count = f"{parameter_count(load_file(named()['addition']).config.model):,} numbers"
    assert count in card and "text: task:" in card and "its licence: " in card
    assert "![its loss, step by step](loss.png)" in card and "tinygpt sample hf:me/sums -i" in card
    assert pushed.models["me/sums"]["loss.png"].startswith(b"\x89PNG")
    succeed("push", "moby-dick", "me/whale", "--private", "--licence", "cc0-1.0")
    card = pushed.models["me/whale"]["README.md"].decode()
    assert "\nlicense: cc0-1.0\n" in card and "me/whale" in pushed.private
    assert load_file(named()["moby-dick"]).progress.sample.strip("\n") in card


def test_a_hostile_title_and_sample_stay_what_they_are() -> None:
    checkpoint = load_file(named()["addition"])
    checkpoint.progress.sample = "```\n# heading\n<script>"
    facts = {"repo": "a/b", "title": "x\n---\n# <b>", "text": "![](x)", "licence": "[l](y): z"}
    facts |= {"config": checkpoint.config.as_dict(), "progress": checkpoint.progress.as_dict()}
    lines = model_card(facts).split("\n")
    assert lines.count("---") == 2 and r"# x --- \# \<b\>" in lines
    assert [line for line in lines if line.startswith("license:")] == []
    assert fenced("```\n# heading\n<script>") == ["````text", "```\n# heading\n<script>", "````"]
    assert plain("[l](y)") == r"\[l\](y)"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("hf:me", "does not name a model on the Hugging Face Hub: write hf:user/name"),
        ("hf:me/none", "there is no model me/none on the Hub, or it is private"),
        ("hf:me/empty", "me/empty has no model.tinygpt and no model.safetensors"),
    ],
)
def test_what_cannot_be_taken_is_said(hub: FakeHub, name: str, said: str) -> None:
    hub.models["me/empty"] = {}
    assert said in one_line_error(tinygpt("sample", name))


def test_without_a_token_nothing_is_pushed(hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_wrong")
    assert "sign in with `hf auth login`" in one_line_error(tinygpt("push", "addition", "me/sums"))
    assert hub.models == {}


def test_a_hub_that_does_not_answer(hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.close()
    monkeypatch.setattr(time, "sleep", lambda seconds: None)  # before it tries again
    assert "check the network" in one_line_error(tinygpt("sample", "hf:me/sums"))


def test_without_its_client_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *arguments: object, **more: object) -> object:
        if name.startswith("huggingface_hub"):
            raise ImportError(name)
        return real(name, *arguments, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(TinyGPTError, match=r"pip install 'tinygpt\[hub\]'"):
        locate("hf:me/sums")
