"""What can be set on the page, what it does, and that nothing on it misleads."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from page_helpers import OpenPage, check, choose_text, click, fact, press, save, step, stop, wait_for_step, your_model
from playwright.sync_api import Page, expect

from tinygpt.core.config import ModelConfig, RunConfig, TrainConfig
from tinygpt.core.models.parameters import parameter_count
from tinygpt.core.train.progress import Progress
from tinygpt.engines.base import State
from tinygpt.store.formats import Checkpoint, load_tinygpt, save_tinygpt

pytestmark = pytest.mark.xdist_group("page")
ODD = RunConfig(ModelConfig(layers=1, d_model=8, heads=2, ctx=16), TrainConfig(steps=50, batch=4, seed=7, lr=0.002))


@pytest.fixture
def odd_file(tmp_path: Path) -> Path:
    weights = np.random.default_rng(0).normal(0, 0.02, parameter_count(ODD.model)).astype(np.float32)
    progress = Progress()
    progress.step, progress.loss = 40, 2.5
    save_tinygpt(tmp_path / "odd.tinygpt", Checkpoint(ODD, State(40, weights), progress))
    return tmp_path / "odd.tinygpt"


def load(page: Page, file: Path) -> None:
    page.locator("input[accept^='.tinygpt,']").set_input_files(file)
    expect(page.get_by_role("alert")).to_contain_text(f"Loaded {file.name}")


def engine_worker(page: Page):
    return next(worker for worker in page.workers if "worker" in worker.url)


def test_what_can_change_between_steps_changes_and_what_cannot_is_fixed(
    open_page: OpenPage, odd_file: Path, tmp_path: Path
) -> None:
    page = open_page()
    page.get_by_label("seed", exact=True).fill("5")
    load(page, odd_file)
    row = page.locator("tr", has=page.get_by_label("your model", exact=True))
    assert page.get_by_label("your model", exact=True).is_checked()
    assert row.locator("td").all_inner_texts()[1:5] == ["1", "8", "2", "16"]
    numbers = f"odd.tinygpt: {parameter_count(ODD.model) / 1000:.2f}K numbers, step 40"
    expect(your_model(page)).to_contain_text(numbers)
    seed, held_out = (page.get_by_label(f"{name}, fixed", exact=True) for name in ("seed", "held-out share"))
    assert (seed.input_value(), held_out.input_value()) == ("7", "0.1")
    assert seed.is_disabled() and held_out.is_disabled()
    assert page.get_by_label("learning rate", exact=True).get_attribute("placeholder") == "0.002"
    page.get_by_label("learning rate", exact=True).fill("0.0005")
    page.get_by_label("batch", exact=True).fill("6")
    page.get_by_label("schedule", exact=True).select_option("cosine")
    page.get_by_label("to step").fill("60")
    press(page, "Continue")
    expect(page.get_by_role("status")).to_have_text("Finished 60 steps.")
    found = load_tinygpt(save(page, tmp_path)).config
    assert found == ODD.replace(lr=0.0005, batch=6, schedule="cosine", steps=60)


@pytest.mark.slow
def test_a_setting_that_cannot_be_is_pointed_at(open_page: OpenPage) -> None:
    page = open_page()
    page.locator("input[name=batch]").fill("0")
    click(page.locator("details.advanced > summary"))
    expect(page.locator("input[name=batch]")).to_be_hidden()
    press(page, "Train")
    expect(page.locator("input[name=batch]")).to_be_focused()  # and the browser says beside it why
    expect(page.locator("input[name=batch]")).to_be_visible()


@pytest.mark.slow
def test_how_long_a_run_takes_is_measured_before_it_begins(open_page: OpenPage, odd_file: Path) -> None:
    """A new one, one of the model in hand, and one that teaches it."""
    page = open_page()

    def asked(learn: str = "") -> str:
        press(page, "How long will it take?")
        told = rf"About \d.* on this machine; [\d.]+K? parameters{learn}, \d.* of memory\."
        expect(page.locator("[data-estimate]")).to_have_text(re.compile(told))
        return page.locator("[data-estimate]").inner_text()

    choose_text(page, "shakespeare")  # which stays when the larger one comes
    check(page.get_by_label("tiny", exact=True))
    asked()
    page.locator("input[name=steps]").fill("200")
    expect(page.locator("[data-estimate]")).not_to_contain_text("About")  # that of another run
    asked()
    load(page, odd_file)
    asked()
    press(page, "Teach it another text …")
    choose_text(page, "own", "Something else. " * 40)
    expect(page.locator("[data-fact=adapter]")).to_contain_text("numbers learn")
    asked(" learn")
    expect(your_model(page)).to_contain_text(re.compile(r"step\s+40"))
    assert page.locator("[data-phase=idle]").count() == 1


@pytest.mark.slow
def test_train_is_in_view_and_sizes_have_one_unit(open_page: OpenPage) -> None:
    page = open_page()
    page.set_viewport_size({"width": 1280, "height": 900})
    expect(page.get_by_role("button", name="Train")).to_be_in_viewport(ratio=1)
    check(page.get_by_label("tiny", exact=True))
    planned = re.search(r"[\d.]+ MB", fact(page, "memory"))
    press(page, "Train")
    page.wait_for_selector("[data-phase=training]")
    assert planned is not None
    assert planned[0] in fact(page, "engine") and planned[0] in fact(page, "memory")
    stop(page)


@pytest.mark.slow
def test_advice_fits_the_page_and_goes_when_another_model_comes(open_page: OpenPage, odd_file: Path) -> None:
    page = open_page()
    choose_text(page, "own", "5 words are not enough")
    check(page.get_by_label("tiny", exact=True))
    press(page, "Train")
    expect(page.get_by_role("alert")).to_contain_text(
        "use a longer text, a smaller context, or a smaller held-out share"
    )
    for label in ("held-out share", "patience", "warm-up", "gradient clip"):
        expect(page.get_by_label(label, exact=True)).to_be_visible()

    page.get_by_label("Text to learn from").fill("x" * 50)
    press(page, "Train")
    wait_for_step(page, 2)
    stop(page)
    said = " ".join(page.locator(".warning, [data-coach]").all_inner_texts())
    assert "no validation loss" in said and "Watch the validation" not in said and "patience" not in said
    page.on("dialog", lambda dialog: dialog.accept())
    load(page, odd_file)
    expect(page.locator(".warning")).to_have_count(0)


@pytest.mark.slow
def test_a_model_that_may_not_fit_is_asked_about_before_memory_is_taken(open_page: OpenPage) -> None:
    page = open_page()
    check(page.get_by_label("tiny", exact=True))
    press(page, "Train")
    wait_for_step(page, 2)
    at = stop(page)
    page.on("dialog", lambda dialog: dialog.dismiss() if "runs short" in dialog.message else dialog.accept())
    check(page.get_by_label("large", exact=True))
    has = "value => Object.defineProperty(navigator, 'deviceMemory', { value, configurable: true })"
    engine_worker(page).evaluate(has, 0.4)  # gibibytes
    with page.expect_event("dialog", lambda dialog: "runs short" in dialog.message) as asked:
        press(page, "Train")
    said = r"takes \d+ MB of memory, and this browser says that there are 429 MB or more"
    assert re.search(said, asked.value.message)
    page.wait_for_selector("[data-phase=idle]")
    engine_worker(page).evaluate(has, 0.125)
    press(page, "Train")
    expect(page.get_by_role("alert")).to_contain_text(re.compile(r"\d+ MB of memory, but this machine has 134 MB"))
    assert step(page) == at
    expect(your_model(page)).to_contain_text(re.compile(rf"step\s+{at}, kept in this browser"))
