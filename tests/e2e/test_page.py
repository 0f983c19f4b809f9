"""The page, used as a person uses it: pick, train, watch, stop, save, load, go on; and what it says when it cannot."""

from __future__ import annotations

from pathlib import Path

import pytest
from page_helpers import OpenPage, check, fact, press, save, stat, step, stop, unfold, wait_for_step, your_model
from page_toy import go_on_from_there
from playwright.sync_api import expect

from tinygpt.core.config import LN_VOCAB
from tinygpt.core.presets import DEFAULT_PRESET, DEFAULT_RECIPE, PRESETS, preset, recipe_names
from tinygpt.store.formats import load_tinygpt

pytestmark = pytest.mark.xdist_group("page")
LEARNT = 3.5  # a loss that a few hundred steps reach and an untrained model is far from


def test_train_stop_save_load_and_go_on(open_page: OpenPage, tmp_path: Path) -> None:
    page = open_page()
    assert fact(page, "isolation") == "cross-origin isolated"
    check(page.get_by_label("tiny", exact=True))
    press(page, "Train")
    wait_for_step(page, 1)
    assert float(stat(page, "loss")) > LEARNT
    expect(page.locator("[data-sample]")).to_be_visible()
    page.wait_for_function(
        """least => Number(document.querySelector("[data-stat='loss'] dd").innerText) < least""", arg=LEARNT
    )
    wait_for_step(page, 101)  # after the first validation
    assert 0 < float(stat(page, "validation")) < LN_VOCAB
    assert "relaxed" in fact(page, "engine") and "MB" in fact(page, "memory")
    stopped_at = stop(page)
    assert 0 < stopped_at < preset("tiny", DEFAULT_RECIPE).train.steps

    with page.expect_download() as download:
        press(page, "Save")
    assert download.value.suggested_filename.endswith(".tinygpt")
    saved = tmp_path / download.value.suggested_filename
    download.value.save_as(saved)
    checkpoint = load_tinygpt(saved)
    assert checkpoint.config == preset("tiny", DEFAULT_RECIPE) and checkpoint.state.step == stopped_at
    assert checkpoint.progress.loss is not None and checkpoint.progress.loss < LEARNT + 0.5

    page.reload()
    page.wait_for_selector("[data-phase=idle]")
    page.locator("input[accept^='.tinygpt,']").set_input_files(saved)
    expect(page.get_by_role("alert")).to_contain_text(saved.name)
    unfold(page)
    assert step(page) == stopped_at
    press(page, "Continue")
    wait_for_step(page, stopped_at + 50)
    assert float(stat(page, "loss")) < LEARNT + 0.5
    went_on_to = stop(page)
    press(page, "Continue")  # the model that is in the tab, without a file
    wait_for_step(page, went_on_to + 1)
    stop(page)


@pytest.mark.slow
def test_a_model_of_other_parts_trains_and_says_what_it_is(open_page: OpenPage, tmp_path: Path) -> None:
    page = open_page()
    check(page.get_by_label("tiny", exact=True))
    for name, choice in (("norm", "rmsnorm"), ("positions", "rotary"), ("qk_norm", "on"), ("activation", "swiglu")):
        page.locator(f"select[name={name}]").select_option(choice)
    page.locator("input[name=dropout]").fill("0.05")
    press(page, "Train")
    wait_for_step(page, 20)
    stop(page)
    expected = preset("tiny", DEFAULT_RECIPE).replace(
        norm="rmsnorm", positions="rotary", qk_norm="on", activation="swiglu", dropout=0.05
    )
    assert load_tinygpt(save(page, tmp_path)).config == expected
    in_hand = your_model(page)
    expect(in_hand).to_contain_text("norm rmsnorm, positions rotary, activation swiglu, qk_norm on")


def test_without_isolation_one_thread_and_a_word_on_it(open_page: OpenPage) -> None:
    page = open_page(isolated=False)
    assert fact(page, "isolation") == "not cross-origin isolated"
    assert fact(page, "threads").startswith("1")
    expect(page.locator(".warning")).to_contain_text("thread")
    check(page.get_by_label("tiny", exact=True))
    press(page, "Train")
    wait_for_step(page, 20)
    stop(page)


def test_presets_are_cores(open_page: OpenPage) -> None:
    page = open_page()
    names = page.locator("input[name=preset]").evaluate_all("all => all.map(input => input.value)")
    assert names == [row.name for row in PRESETS]
    assert page.locator("input[name=preset]:checked").count() == 0  # the time decides
    check(page.get_by_label(DEFAULT_PRESET, exact=True))
    assert page.locator("input[name=recipe]:checked").input_value() == DEFAULT_RECIPE
    for recipe in recipe_names():
        check(page.locator(f"input[name=recipe][value={recipe}]"))
        for name in (DEFAULT_PRESET, "huge"):
            check(page.get_by_label(name, exact=True))
            train = preset(name, recipe).train
            for field in ("steps", "batch", "lr", "dropout"):
                assert float(page.locator(f"input[name={field}]").get_attribute("placeholder") or "") == getattr(
                    train, field
                )
            assert page.locator("select[name=optimizer] option").first.inner_text() == train.optimizer


@pytest.mark.slow
def test_a_worker_that_cannot_start(open_page: OpenPage) -> None:
    page = open_page(prepare=lambda page: page.route("**/worker*.js", lambda route: route.abort()))
    expect(page.get_by_role("alert")).to_contain_text("worker died")
    assert page.locator("[data-phase=broken]").count() == 1


def test_a_worker_that_dies_is_replaced_and_the_run_goes_on(open_page: OpenPage) -> None:
    page = open_page()
    check(page.get_by_label("tiny", exact=True))
    press(page, "Train")
    in_hand = your_model(page)
    expect(in_hand).to_contain_text("kept in this browser")
    engine = next(worker for worker in page.workers if "worker" in worker.url)
    engine.evaluate("setTimeout(() => { throw new Error('out of luck') })")
    expect(page.get_by_role("alert")).to_contain_text(
        "worker died (Uncaught Error: out of luck). The model as of step "
    )
    go_on_from_there(page)
    page.wait_for_selector("[data-phase=training]")
    kept = int(in_hand.get_attribute("data-kept") or 0)
    wait_for_step(page, kept + 5)
    stop(page)
