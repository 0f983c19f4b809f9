"""What can be set on the page, what it does, and that nothing on it misleads."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from page_helpers import OpenPage, fact, press, save, step, stop, wait_for_step
from playwright.sync_api import Page, expect

from tinygpt.core.config import ModelConfig, RunConfig, TrainConfig
from tinygpt.core.models.parameters import parameter_count
from tinygpt.core.run.progress import Progress
from tinygpt.engines.base import State
from tinygpt.formats import Checkpoint, load_tinygpt, save_tinygpt

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
    page.locator("input[accept='.tinygpt']").set_input_files(file)
    expect(page.get_by_role("alert")).to_contain_text(f"Loaded {file.name}")


def focused(page: Page) -> str:
    return str(page.evaluate("document.activeElement.name || document.activeElement.innerText"))


def engine_worker(page: Page):
    return next(worker for worker in page.workers if "worker" in worker.url)


def test_what_can_change_between_steps_changes_and_what_cannot_is_fixed(
    open_page: OpenPage, odd_file: Path, tmp_path: Path
) -> None:
    page = open_page()
    page.locator("summary").click()
    page.get_by_label("seed").fill("5")
    load(page, odd_file)
    seed, held_out = page.get_by_label("seed, fixed"), page.get_by_label("held-out share, fixed")
    assert (seed.input_value(), held_out.input_value()) == ("7", "0.1")
    assert seed.is_disabled() and held_out.is_disabled()
    assert page.get_by_label("learning rate").get_attribute("placeholder") == "0.002"
    page.get_by_label("learning rate").fill("0.0005")
    page.get_by_label("batch").fill("6")
    page.get_by_label("schedule").select_option("cosine")
    page.get_by_label("to step").fill("60")
    press(page, "Continue")
    expect(page.get_by_role("status")).to_have_text("Finished 60 steps.")
    found = load_tinygpt(save(page, tmp_path)).config
    assert found == ODD.replace(lr=0.0005, batch=6, schedule="cosine", steps=60)


def test_the_size_of_the_model_in_hand_is_shown(open_page: OpenPage, odd_file: Path) -> None:
    page = open_page()
    load(page, odd_file)
    row = page.locator("tr", has=page.get_by_label("in hand", exact=True))
    assert page.get_by_label("in hand", exact=True).is_checked()
    assert row.locator("td").all_inner_texts()[1:5] == ["1", "8", "2", "16"]
    expect(
        page.get_by_text(f"odd.tinygpt, {parameter_count(ODD.model) / 1000:.2f}K parameters, step 40")
    ).to_be_visible()


@pytest.mark.parametrize("name", ["steps", "batch"])
def test_a_setting_that_cannot_be_is_pointed_at(open_page: OpenPage, name: str) -> None:
    page = open_page()
    if name == "batch":
        page.locator("summary").click()
    page.locator(f"input[name={name}]").fill("0")
    if name == "batch":
        page.locator("summary").click()
        expect(page.get_by_label("batch")).to_be_hidden()
    press(page, "Train")
    expect(page.locator(f"input[name={name}]")).to_be_focused()  # and the browser says beside it why
    expect(page.locator(f"input[name={name}]")).to_be_visible()


def test_the_keyboard_stays_with_the_button(open_page: OpenPage) -> None:
    page = open_page()
    page.get_by_label("tiny", exact=True).check()
    page.get_by_role("button", name="Train").focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("[data-phase=training]")
    assert focused(page) == "Stop"
    wait_for_step(page, 2)
    page.keyboard.press("Enter")
    page.wait_for_selector("[data-phase=idle]")
    assert focused(page) == "Continue"


def test_train_is_in_view_and_sizes_have_one_unit(open_page: OpenPage) -> None:
    page = open_page()
    page.set_viewport_size({"width": 1280, "height": 900})
    expect(page.get_by_role("button", name="Train")).to_be_in_viewport(ratio=1)
    expect(page.locator("summary")).to_be_in_viewport(ratio=1)
    page.get_by_label("tiny", exact=True).check()
    planned = re.search(r"[\d.]+ MB", fact(page, "memory"))
    press(page, "Train")
    page.wait_for_selector("[data-phase=training]")
    assert planned is not None
    assert planned[0] in fact(page, "engine") and planned[0] in fact(page, "memory")
    stop(page)


def test_advice_fits_the_page_and_goes_when_another_model_comes(open_page: OpenPage, odd_file: Path) -> None:
    page = open_page()
    page.locator("summary").click()
    page.get_by_label("Your own").check()
    page.get_by_label("Text to learn from").fill("5 words are not enough")
    page.get_by_label("tiny", exact=True).check()
    press(page, "Train")
    expect(page.get_by_role("alert")).to_contain_text(
        "use a longer text, a smaller context, or a smaller held-out share"
    )
    for label in ("held-out share", "patience", "warm-up", "gradient clip"):
        expect(page.get_by_label(label)).to_be_visible()

    page.get_by_label("Text to learn from").fill("x" * 50)
    press(page, "Train")
    wait_for_step(page, 2)
    stop(page)
    said = " ".join(page.locator(".warning").all_inner_texts())
    assert "no validation loss" in said and "Watch the validation" not in said and "patience" not in said
    page.on("dialog", lambda dialog: dialog.accept())
    load(page, odd_file)
    expect(page.locator(".warning")).to_have_count(0)


@pytest.mark.parametrize(("gibibytes", "asked"), [(2, False), (8, True)])
def test_a_model_that_may_not_fit_is_asked_about_before_memory_is_taken(
    open_page: OpenPage, gibibytes: int, asked: bool
) -> None:
    page = open_page()
    page.get_by_label("tiny", exact=True).check()
    press(page, "Train")
    wait_for_step(page, 2)
    at = stop(page)
    questions: list[str] = []

    def answer(dialog):
        questions.append(dialog.message)
        if "runs short" in dialog.message:
            dialog.dismiss()
        else:
            dialog.accept()

    page.on("dialog", answer)
    engine_worker(page).evaluate(f"Object.defineProperty(navigator, 'deviceMemory', {{ value: {gibibytes} }})")
    page.get_by_label("behemoth", exact=True).check()
    press(page, "Train")
    if asked:
        page.wait_for_selector("[data-phase=idle]", timeout=60_000)
        assert "takes 10.8 GB of memory, and this browser says that there are 8.59 GB or more" in questions[-1]
    else:
        expect(page.get_by_role("alert")).to_contain_text(
            "10.8 GB of memory, but this machine has 2.15 GB", timeout=60_000
        )
    assert step(page) == at
    expect(page.get_by_text(f"step {at}, kept in this browser")).to_be_visible()


def test_a_run_s_settings_are_an_address_and_its_time_is_measured_before_it_begins(open_page: OpenPage) -> None:
    asked = "train?preset=tiny&recipe=classic&steps=300&lr=0.002&norm=rmsnorm&text=moby-dick&engine=wasm&lr2=1&batch=-4"
    page = open_page(view=asked)
    expect(page.get_by_role("alert")).to_contain_text("which was left out: lr2=1, batch=-4.")
    assert page.get_by_label("tiny", exact=True).is_checked()
    page.locator("summary", has_text="Settings").click()
    assert page.get_by_label("learning rate", exact=True).input_value() == "0.002"
    press(page, "Share these settings")
    shared = page.get_by_label(re.compile("whoever opens it finds them here"))
    said = "preset=tiny&recipe=classic&steps=300&lr=0.002&norm=rmsnorm&text=moby-dick&engine=wasm"
    expect(shared).to_have_value(f"{page.url.split('#')[0]}#train?{said}")
    press(page, "How long will it take?")
    told = page.locator("[data-estimate]")
    expect(told).to_contain_text("measured")
    found = re.fullmatch(
        r"About (\d+):(\d\d) here \(([\d.]+) ms for a step, measured\); .*K parameters, .*B of memory\.",
        told.inner_text().strip(),
    )
    assert found and 60 * int(found[1]) + int(found[2]) >= 0.3 * float(found[3]) - 1
    page.get_by_label("batch", exact=True).fill("2")
    expect(page.get_by_role("button", name="How long will it take?")).to_be_visible()
    press(page, "Train")
    wait_for_step(page, 1)
    stop(page)
