"""Files that the page is given: it says "Loaded" of a sound one only, and what was in hand stays in hand otherwise."""

from __future__ import annotations

import json
import shutil
import struct
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from page_helpers import (
    OpenPage,
    check,
    let_write,
    offer_of,
    opener,
    press,
    save,
    show,
    stat,
    step,
    stop,
    view_names,
    wait_for_step,
    your_model,
)
from page_toy import TINY, go_on_with, untrained, wait_until_kept
from playwright.sync_api import Browser, Page, expect

import tinygpt
from tinygpt.core.config import LoraConfig, RunConfig
from tinygpt.core.models.adapters import trained_count
from tinygpt.core.models.programs import WRITING
from tinygpt.core.plan.cpu.lowering import Lowered
from tinygpt.core.wording import size_text
from tinygpt.engines.base import State
from tinygpt.site.build import write_models
from tinygpt.store import bundled as zoo
from tinygpt.store.formats import load_tinygpt, save_tinygpt
from tinygpt.store.formats.adapter_file import Adapter, save_adapter
from tinygpt.store.formats.checkpoint import Checkpoint, weights_sha256

sys.path.insert(0, str(Path(__file__).parents[1] / "formats"))
from format_samples import OriginalFile, packed, sample_checkpoint

HOSTILE = "<img src=x onerror=alert(1)>"
pytestmark = pytest.mark.xdist_group("page")


def load(page: Page, path: Path, raw: bytes | None = None) -> None:
    if raw is not None:
        path.write_bytes(raw)
    page.locator("input[accept^='.tinygpt,']").set_input_files(path)


def test_a_file_is_checked_whole_before_it_is_called_loaded(open_page: OpenPage, tmp_path: Path) -> None:
    page = open_page()
    good = tmp_path / "good.tinygpt"
    save_tinygpt(good, sample_checkpoint())
    load(page, good)
    expect(page.get_by_role("alert")).to_contain_text("Loaded good.tinygpt: step 40.")

    whole = good.read_bytes()
    swapped = bytearray(whole)
    swapped[-9] ^= 1
    original = OriginalFile()
    floats = np.frombuffer(original.state[4:], "<f4").copy()
    floats[7] = np.nan
    diverged = packed(2, original.header(), original.state[:4] + floats.tobytes())
    negative = packed(2, original.header(), struct.pack("<i", -5) + original.state[4:])
    for name, raw, fault in (
        ("cut", whole[:-100], "the header promises"),
        ("damaged", bytes(swapped), "the state does not match its sha256: the file is damaged"),
        ("diverged", diverged, "token_embedding.weight holds NaN or infinity"),
        ("negative", negative, "the state's step must be from 0"),
        ("front", whole[:4000], "the header is said to have"),
        ("longer", whole + b"more", "the header promises"),
        ("empty", b"", "this is no .tinygpt file"),
        ("noise", bytes(range(256)) * 4000, "this is no .tinygpt file"),
        (HOSTILE, b"TGPT" + HOSTILE.encode() * 100, "version 1735223612 is unknown"),
    ):
        load(page, tmp_path / name, raw)
        expect(page.get_by_role("alert")).to_contain_text(f"The file {name} cannot be loaded: {fault}")
        expect(page.locator("[data-phase=idle]")).to_have_count(1)
        assert step(page) == 40
    assert let_write(page, "To be").startswith("To be")  # the good one is still there
    show(page, "train")
    expect(page.get_by_role("status")).to_have_text("Ready.")  # it has not trained here
    assert page.locator("input[name=steps]").get_attribute("placeholder") == "77"


def test_nothing_of_a_file_or_a_text_is_ever_html(open_page: OpenPage, tmp_path: Path) -> None:
    """Names, headers, texts, prompts and what a model makes of them, wherever the page shows them."""
    page = open_page()
    made = load_tinygpt(untrained(tmp_path / "toy", TINY.replace(steps=100_000, sample_every=100)))
    made.progress.sample = HOSTILE
    file = tmp_path / f"{HOSTILE}.tinygpt"
    save_tinygpt(file, replace(made, backend=HOSTILE, data={"name": HOSTILE}, origin={"model": HOSTILE}))
    go_on_with(page, file, text=f"{HOSTILE}</script></textarea> " * 30)
    wait_for_step(page, 200)
    stop(page)
    wait_until_kept(page)
    for view in view_names(page):
        show(page, view)
        if view in ("train", "play", "models"):
            expect(page.get_by_text(HOSTILE).locator("visible=true").first).to_be_visible()
        if view == "play":
            page.get_by_label("Begin with").fill(HOSTILE)
            press(page, "Write")
            expect(page.locator(".panes .written")).to_contain_text(HOSTILE)
            expect(page.locator("[data-pace=done]")).to_contain_text("letters")
        if view == "inside":
            page.get_by_label("A text that the model reads").fill(HOSTILE)
            check(page.get_by_label("Found in the training text"))
            expect(page.locator("[data-inside=origins]")).not_to_be_empty()
        assert page.locator("img").count() == 0, view
    show(page, "train")
    page.reload()
    expect(offer_of(page)).to_contain_text(HOSTILE)
    assert page.locator("img").count() == 0


@pytest.mark.slow
def test_a_model_of_ours_is_loaded_from_the_site(
    dist: Path, browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In int8, which it writes with as it is, until somebody wants floats."""
    with tinygpt.load("shakespeare-small") as whole:
        whole.save(tmp_path / "bard.tinygpt", dtype="int8")
    monkeypatch.setattr(zoo, "FOLDER", tmp_path)
    base = load_tinygpt(tmp_path / "bard.tinygpt")
    sha256 = weights_sha256(base.state.w)
    card = {"name": "bard", "title": "a test", "parameters": 1500, "weights_sha256": sha256}
    card["bytes"] = (tmp_path / "bard.tinygpt").stat().st_size
    (tmp_path / "bard.json").write_text(json.dumps(card))
    adapted = RunConfig(base.config.model, base.config.train, LoraConfig(rank=1))
    taught = State(9, np.ones(trained_count(adapted), np.float32))
    save_adapter(tmp_path / "a.safetensors", Adapter("taught", sha256, Checkpoint(adapted, taught)))
    shutil.copytree(dist, tmp_path / "site")
    write_models(tmp_path / "site")
    model = tinygpt.load(tmp_path / "bard.tinygpt", engine="native")
    with opener(tmp_path / "site", browser) as opened:
        page = opened()
        load(page, tmp_path / "a.safetensors", (tmp_path / "a.safetensors").read_bytes())  # it finds what it stands on
        expect(your_model(page)).to_contain_text("an adapter of bard.tinygpt: 4.03K numbers")
        show(page, "play")
        models = page.get_by_label("Another model")
        expect(models.get_by_role("option")).to_contain_text(["choose one", "bard"])
        models.select_option("bard")
        page.locator("[data-pace=done]").filter(has_text="letters").wait_for()  # it introduces itself
        page.get_by_label("Begin with").fill("HAMLET")
        page.get_by_label("Temperature", exact=True).fill("0")
        text = page.locator(".panes .written").first
        for tokens in (100, 110):
            page.get_by_label("Length", exact=True).fill(str(tokens))
            press(page, "Write")
            expect(text).to_have_text("HAMLET" + model.generate("HAMLET", tokens=tokens, temperature=0))
            if tokens == 100:
                show(page, "train")
                taken = size_text(Lowered(model.config, WRITING, compact="int8").bytes())
                expect(page.locator("[data-fact='memory']")).to_contain_text(f"{taken}, all taken at the start")
                assert np.array_equal(load_tinygpt(save(page, tmp_path)).state.w, model.weights)
                show(page, "play")
        (tmp_path / "site/models/bard.tinygpt").write_bytes(b"TGPT")
        models.select_option("bard")
        expect(page.get_by_role("alert").first).to_contain_text("The file bard.tinygpt cannot be loaded: the file ends")
        show(page, "train")
        assert step(page) == model.progress.step  # what was in hand stays
    model.close()


@pytest.mark.slow
def test_the_originals_files_load(open_page: OpenPage, tmp_path: Path) -> None:
    page = open_page()
    original = OriginalFile()
    load(page, tmp_path / "old.tinygpt", original.v1())
    expect(page.get_by_role("alert")).to_have_text("Loaded old.tinygpt: step 123. It has not left this machine.")
    new = original.v2(
        finalLoss={"step": 123, "train": 3.25, "val": None}, bestVal={"loss": 3.5, "step": 100}, hue="red"
    )
    load(page, tmp_path / "new.tinygpt", new)
    expect(page.get_by_role("alert")).to_contain_text("What could not be understood was left out: hue.")
    assert stat(page, "loss") == "3.250"
