"""What the page makes of a model for others."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from page_helpers import OpenPage, check, press, show
from PIL import Image
from playwright.sync_api import Page, expect

import tinygpt
from tinygpt.store.bundled import named
from tinygpt.store.formats import load_file, load_tinygpt, save_tinygpt

pytestmark = pytest.mark.xdist_group("page")


def load(page: Page, file: Path) -> None:
    page.locator("input[accept^='.tinygpt,']").set_input_files(file)
    expect(page.get_by_role("alert")).to_contain_text(f"Loaded {file.name}")


def shared_page(page: Page, folder: Path, prompt: str) -> Path:
    show(page, "share")
    page.get_by_label("It begins with").fill(prompt)
    with page.expect_download() as download:
        press(page, "Save the page")
    target = folder / download.value.suggested_filename
    download.value.save_as(target)
    return target


@pytest.mark.parametrize("name", ["addition", "shakespeare-small"])
def test_a_page_of_one_file_holds_what_the_terminal_would_put_there(
    open_page: OpenPage, tmp_path: Path, name: str
) -> None:
    model = load_file(named()[name])
    save_tinygpt(tmp_path / f"{name}.tinygpt", model)
    save_tinygpt(tmp_path / "small.tinygpt", model, dtype="int8")
    page = open_page()
    load(page, tmp_path / f"{name}.tinygpt")
    made = shared_page(page, tmp_path, "To be, ")
    assert made.name == f"{name}.html"
    got, expected = load_file(made), load_tinygpt(tmp_path / "small.tinygpt")
    assert got.config == expected.config and got.progress.as_dict() == expected.progress.as_dict()
    np.testing.assert_array_equal(got.state.w, expected.state.w)
    if expected.state.tables is not None:
        np.testing.assert_array_equal(got.state.tables.rows, expected.state.tables.rows)
    alone = page.context.browser.new_page(reduced_motion="reduce")  # type: ignore[union-attr]
    alone.goto(made.as_uri())
    text = tinygpt.load(made).generate("To be, ", tokens=300)
    expect(alone.locator("[data-text]")).to_have_text(f"To be, {text}", use_inner_text=False)
    alone.close()


def test_without_a_model_it_says_where_to_get_one(open_page: OpenPage) -> None:
    page = open_page()
    show(page, "share")
    expect(page.get_by_role("heading", name="There is nothing to share yet")).to_be_visible()
    assert page.get_by_role("link", name="Train one").get_attribute("href") == "#train"


def test_a_film_becomes_a_moving_picture(open_page: OpenPage, tmp_path: Path) -> None:
    model = load_file(named()["addition"])
    progress = model.progress
    progress.film = [[0, "\ufffd\x00qzk</script>" * 30], [10, "a long line of words " * 40], [progress.step, "1+1=2\n"]]
    save_tinygpt(tmp_path / "sums.tinygpt", replace(model, progress=progress))
    page = open_page()
    load(page, tmp_path / "sums.tinygpt")
    show(page, "share")
    with page.expect_download() as download:
        press(page, "Save the picture")
    assert download.value.suggested_filename == "sums.gif"
    download.value.save_as(tmp_path / "film.gif")
    with Image.open(tmp_path / "film.gif") as picture:
        assert picture.n_frames == 3 and picture.size == (960, 600)  # type: ignore[attr-defined]
        shown = []
        for frame in range(3):
            picture.seek(frame)
            shown.append((picture.info["duration"], picture.convert("RGB").tobytes()))
    assert [duration for duration, _ in shown] == [1100, 1100, 4000] and len({pixels for _, pixels in shown}) == 3


def test_a_small_run_is_a_link_that_trains_it_again(open_page: OpenPage) -> None:
    page = open_page()
    check(page.get_by_label("tiny", exact=True))
    page.locator("input[name=steps]").fill("20")
    press(page, "Train")
    page.wait_for_selector("[data-kept='20']")
    show(page, "share")
    press(page, "Make the link")
    link = page.get_by_label("The run").input_value()
    assert link.startswith(page.url.split("#")[0]) and "#verify?capsule=" in link and len(link) < 4000
    expect(page.locator("[data-way=again]")).to_contain_text("served by your own machine")
    page.goto("about:blank")
    page.goto(link)
    page.locator("input[name=replayed]").fill("20")
    page.locator("input[name=replayed]").blur()
    press(page, "Replay")
    expect(page.get_by_role("status")).to_contain_text("Exactly equal. All 20 losses match the capsule exactly")


def test_a_link_that_is_cut_off_is_told(open_page: OpenPage) -> None:
    page = open_page(view="verify")
    page.evaluate("location.hash = '#verify?capsule=H4sIAAAAA'")
    page.reload()
    expect(page.get_by_role("alert")).to_contain_text("The link is not whole: ask for it again.")
