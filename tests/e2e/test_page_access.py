"""Everyone can use it: axe-core finds no grave fault in any view, dark or light, and keys alone train a model."""

from __future__ import annotations

from pathlib import Path

import pytest
from page_access import AXE, grave_faults, tab_to
from page_helpers import (
    PHONE,
    WIDE,
    OpenPage,
    check,
    choose_text,
    click,
    let_write,
    press,
    show,
    unfold,
    view_names,
    wait_for_step,
)
from playwright.sync_api import Page, expect

pytestmark = pytest.mark.xdist_group("page")


def use(page: Page, view: str, folder: Path) -> None:
    """Bring a view that a model is in hand for into a state with much to see."""
    if view == "train":
        choose_text(page, "hub")
        (folder / "bad.tinygpt").write_bytes(b"no model at all")
        page.locator("input[accept^='.tinygpt,']").set_input_files(folder / "bad.tinygpt")
        expect(page.get_by_role("alert").first).to_contain_text("cannot be loaded")
        unfold(page)
    elif view == "play":
        assert let_write(page, length="20")
        page.locator(".panes .written").press("ArrowRight")
        expect(page.get_by_role("list", name="What could come next")).to_be_visible()
    elif view == "inside":
        click(page.locator(".inside summary"))
        expect(page.locator("[data-inside=attention]")).to_be_visible()
    elif view == "models":
        check(page.get_by_role("checkbox", name="Compare").first)


def test_no_view_has_a_grave_fault_and_none_is_wider_than_a_phone(open_page: OpenPage, tmp_path: Path) -> None:
    page = open_page(view="home")
    page.evaluate(AXE.read_text())
    faults: list[str] = []
    page.set_viewport_size(PHONE)
    for view in view_names(page):
        show(page, view)
        faults += grave_faults(page, f"{view}, fresh, on a phone", ("dark",))
    page.set_viewport_size(WIDE)
    show(page, "train")
    unfold(page)
    check(page.get_by_label("tiny", exact=True))
    press(page, "Train")
    page.wait_for_selector("[data-phase=training]")  # until then the step is that of the model that was looked into
    wait_for_step(page, 5)
    faults += grave_faults(page, "train, under way")
    press(page, "Stop")
    page.wait_for_selector("[data-kept]:not([data-kept=''])")
    for view in view_names(page):
        show(page, view)
        use(page, view, tmp_path)
        faults += grave_faults(page, f"{view}, in use")
        page.set_viewport_size(PHONE)
        if (wide := page.evaluate("document.documentElement.scrollWidth")) > PHONE["width"]:
            faults.append(f"{view} is {wide} wide on a phone")
        page.set_viewport_size(WIDE)
    assert not faults


def test_keys_alone_lead_from_the_first_screen_to_a_model(open_page: OpenPage) -> None:
    page = open_page(view="home")
    tab_to(page, "Train yours now · 1 minute")
    page.keyboard.press("Enter")
    expect(page.get_by_role("link", name="Train", exact=True)).to_be_focused()  # the button has left with its view
    wait_for_step(page, 1)
    tab_to(page, "Stop")
    page.keyboard.press("Enter")
    assert_stopped(page)


def test_keys_alone_choose_a_size_and_train_it(open_page: OpenPage) -> None:
    page = open_page()
    page.get_by_label("Size or time").focus()
    page.keyboard.press("t")
    expect(page.get_by_label("Size or time")).to_have_value("tiny")
    tab_to(page, "Train")
    page.keyboard.press("Enter")
    wait_for_step(page, 20)
    expect(page.get_by_role("button", name="Stop", exact=True)).to_be_focused()
    page.keyboard.press("Enter")
    assert_stopped(page)


def assert_stopped(page: Page) -> None:
    page.wait_for_selector("[data-phase=idle]")
    expect(page.get_by_role("status").first).to_contain_text("Stopped at step")
    expect(page.get_by_role("button", name="Continue", exact=True)).to_be_focused()
