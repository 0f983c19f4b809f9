"""`tinygpt look`, and parts left out by `sample` and `eval`; the page that is written, in a browser."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_helpers import TINY, metrics, one_line_error, succeed, tinygpt
from playwright.sync_api import Playwright

import tinygpt as api
from tinygpt.engines.runner import find_chromium

TEXT = "the big hen sat on the old fox.\n"
ONE = ("--threads", 1)
HOSTILE = "</script><script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\">\x00\xff"


@pytest.fixture(scope="module")
def looked(straight_run: Path, text_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with everything that one look can leave."""
    folder = tmp_path_factory.mktemp("look")
    outs = [word for kind in ("html", "json", "png", "npz") for word in ("--out", folder / f"look.{kind}")]
    tensors = ["--tensor", "blocks.0.y", "--tensor", "dblocks.*.fc_in.weight"]
    said = succeed(
        "look", straight_run, "--text", TEXT, *tensors, "--origins", "own", "--byte", "e", *outs, *ONE
    ).stdout
    assert "nats per byte, over 32 bytes" in said and "of animals.txt; the longest has" in said
    assert "blocks.0.y" in said and "16×16" in said and "dblocks.0.mlp.fc_in.weight" in said
    return folder


def test_what_is_written(looked: Path, straight_run: Path) -> None:
    data = json.loads((looked / "look.json").read_text())
    assert bytes(data["text"]).decode() == TEXT and data["first"] == 16 and data["byte"] == ord("e")
    with api.load(straight_run, threads=1) as model:
        np.testing.assert_allclose(data["losses"], model.evaluate(TEXT).per_byte, rtol=1e-4)
        inside = api.look(model, TEXT, byte=ord("e"), tensors=["blocks.0.y"], origins=TEXT * 9).data["inside"]
        assert inside == data["inside"]
    names = [row["name"] for row in data["weights"]]
    weights = model.checkpoint.state.w
    first = data["weights"][names.index("token_embedding.weight")]
    table = weights[: 256 * 16].reshape(256, 16).astype(np.float64)
    np.testing.assert_allclose(first["singular"], np.linalg.svd(table, compute_uv=False), rtol=2e-4)
    tensors = np.load(looked / "look.npz")
    assert tensors["blocks.0.y"].shape == (16, 16) and tensors["dblocks.0.mlp.fc_in.weight"].shape == (64, 16)
    assert (looked / "look.png").read_bytes().startswith(b"\x89PNG")
    stretches = data["origins"]["stretches"]
    assert stretches[0]["text"] in TEXT and data["origins"]["covered"][5] >= len("the big hen")


def test_a_part_left_out(straight_run: Path, text_file: Path) -> None:
    def loss(*more: object) -> float:
        return float(json.loads(succeed("eval", straight_run, "--json", *ONE, *more).stdout)["loss"])

    whole, without = loss(), loss("--ablate", "blocks.0.head.1")
    assert loss("--scale", "blocks.*.mlp=1", "--scale", "blocks.0.head.0=1.0") == whole != without
    assert loss("--scale", "blocks.0.head.1=0") == without
    written = [
        succeed("sample", straight_run, "--tokens", 30, "--temperature", 1, "--raw", *ONE, *more).stdout_bytes
        for more in ((), ("--ablate", "blocks.0"), ("--ablate", "blocks.0.attn", "--ablate", "blocks.0.mlp"))
    ]
    assert written[0] != written[1] == written[2]
    with api.load(straight_run, threads=1).scaled({"blocks.0": 0}) as model:
        assert model.generate("\n", tokens=30, temperature=1.0) == written[1].decode("utf-8", "replace")


def test_every_tensor_has_a_name(straight_run: Path) -> None:
    listed = succeed("look", straight_run, "--tensors").stdout
    for name in ("blocks.0.p", "blocks.0.dqkv", "token_embedding.weight", "dblocks.0.attn.qkv.weight", "1×2×16×16"):
        assert name in listed


@pytest.mark.parametrize(
    "wrong, sentence",
    [
        ((), "which text? Give --text or --file"),
        (("--text", "a"), "must have 2 to"),
        (("--text", "abc", "--file", "x"), "not both"),
        (("--text", "abc", "--byte", "ab"), "--byte takes one byte"),
        (("--text", "abc", "--tensor", "blocks.0.dqkw"), "did you mean 'blocks.0.dqkv'?"),
        (("--text", "abc", "--ablate", "blocks.0.head.2"), "did you mean 'blocks.0'?"),
        (("--text", "abc", "--scale", "blocks.0"), "a part is scaled as in blocks.1.head.3=0.5"),
        (("--text", "abc", "--out", "a.gif.txt"), "a picture cannot be written"),
        (("--text", "abc", "--out", "a.npz"), "say with --tensor which"),
        (("--text", "abc", "--window", "1"), "at least 2 bytes"),
        (("--text", "abc", "--engine", "torch"), "has no program whose tensors could be watched"),
        (("--text", "abc", "--origins", "nowhere"), "nowhere"),
    ],
)
def test_a_sentence_for_what_cannot_be(straight_run: Path, wrong: Any, sentence: str) -> None:
    assert sentence in one_line_error(tinygpt("look", straight_run, *wrong))


def test_watching_a_training(text_file: Path, tmp_path: Path) -> None:
    """The same weights as without; events, a picture and the last values in the folder, resumed or not."""
    plain = ["--preset", "tiny", *TINY, "--file", text_file, "--eval-every", 15, "--grad-accum", 2, "--quiet"]
    watch = ["--watch", "blocks.*.dqkv", "--watch", "dblocks.0.*fc_in.weight", "--watch-every", 10]
    succeed("train", *plain, "--steps", 35, "--out", tmp_path / "plain")
    said = succeed("train", *plain[:-1], *watch, "--steps", 20, "--out", tmp_path / "run").stdout
    assert "step     20  blocks.0.dqkv  " in said
    succeed("train", "--resume", tmp_path / "run", *watch, "--steps", 35, "--quiet")
    events = metrics(tmp_path / "run", "watch")
    names = ["blocks.0.dqkv", "dblocks.0.mlp.fc_in.weight"]
    assert [(event["step"], event["tensor"]) for event in events] == [
        (n, name) for n in (10, 20, 30, 35) for name in names
    ]
    kept = np.load(tmp_path / "run" / "watch.npz")
    assert kept["blocks.0.dqkv"].shape == (64, 48)
    for event in events[-2:]:
        assert (
            event["norm"] == pytest.approx(float(np.linalg.norm(kept[event["tensor"]])), rel=1e-4) and event["norm"] > 0
        )
    assert (tmp_path / "run" / "watch.png").read_bytes().startswith(b"\x89PNG")
    weights = [api.load(tmp_path / name).weights for name in ("plain", "run")]
    assert (weights[0] == weights[1]).all()
    told: list[Any] = []
    text = text_file.read_text()
    api.train(text, preset="tiny", steps=4, watch=["blocks.1.y"], watch_every=2, on_event=told.append, threads=1)
    assert [event["step"] for event in told if event["event"] == "watch"] == [2, 4]


@pytest.mark.parametrize(
    "wrong, sentence",
    [
        (("--watch", "blocks.0.dqkw"), "did you mean 'blocks.0.dqkv'?"),
        (("--watch-every", 5), "say with --watch what"),
        (("--watch", "x", "--watch-every", 0), "takes 1 step or more"),
        (("--watch", "x", "--engine", "torch"), "the torch engine has no program whose tensors could be watched"),
    ],
)
def test_what_cannot_be_watched(text_file: Path, tmp_path: Path, wrong: Any, sentence: str) -> None:
    failed = tinygpt("train", "--preset", "tiny", *TINY, "--file", text_file, *wrong, "--out", tmp_path / "run")
    assert sentence in one_line_error(failed) and not (tmp_path / "run").exists()


def test_the_page_shows_a_text_and_never_obeys_it(straight_run: Path, tmp_path: Path, playwright: Playwright) -> None:
    """A text, a source and a model's name that are markup; keys; nothing asked of any network."""
    text = (HOSTILE + TEXT).encode("latin-1")
    with api.load(straight_run, threads=1) as model:
        seen = api.look(model, text, tensors=["blocks.0.qkv"], origins=text * 3)
        seen.data["model"]["name"] = seen.data["origins"]["source"] = HOSTILE
        seen.save(tmp_path / "look.html")
    assert HOSTILE[:9] not in (tmp_path / "look.html").read_text().split('id="data">')[1].split("</script>")[0]
    asked, faults = [], []
    browser = playwright.chromium.launch(executable_path=find_chromium(), args=["--no-sandbox"])
    page = browser.new_page(viewport={"width": 390, "height": 800})
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: faults.append(message.text))
    page.on("pageerror", lambda fault: faults.append(str(fault)))
    page.goto((tmp_path / "look.html").as_uri())
    assert page.title() == f"Inside {HOSTILE}".replace("\0", "\ufffd") or HOSTILE[:20] in page.title()
    assert page.locator("img, iframe, link, script[src]").count() == 0
    assert page.locator("#text").inner_text().startswith("</script><script>")
    page.locator("#text").focus()
    page.keyboard.press("Home")
    assert page.locator("[aria-selected=true]").get_attribute("id") == "byte-0"
    page.keyboard.press("ArrowRight")
    assert page.locator("#byte-1[aria-selected=true]").count() == 1
    shown = [page.locator("#next li").nth(0).inner_text(), page.locator("#head-name").inner_text()]
    page.locator("#heads button").first.focus()
    page.keyboard.press("ArrowRight")
    assert page.locator("#head-name").inner_text() == "blocks.0.head.1" != shown[1]
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    browser.close()
    assert len(asked) == 1 and not faults
