"""What the page makes of a model for others."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from page_helpers import OpenPage, press, show
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
