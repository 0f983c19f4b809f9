"""Which op diverged first? Two runs in step, that differ in a setting, in one that is refused, in an edit."""

from lab_helpers import opened, press
from page_access import AXE, grave_faults
from playwright.sync_api import expect


def test_the_first_op_is_named_for_a_setting_and_for_an_edit(open_page):
    page = opened(open_page, "diverged=smoothing")
    press(page, "Train in step")
    found = page.locator("[data-parted]")
    expect(found).to_contain_text("cross_entropy: losses differs. 100 % of its numbers do")
    expect(found).to_contain_text("Its cause: smoothing is 0 and 0.1.")
    expect(page.get_by_role("region", name="The op")).to_contain_text("def cross_entropy(")
    expect(page.get_by_role("region", name="How it spreads").locator(".first")).to_contain_text("cross_entropy")
    page.evaluate(AXE.read_text())
    assert not list(grave_faults(page, "a lab"))

    page.get_by_label("The second run has").select_option("own")
    page.get_by_label("setting", exact=True).fill("lr")
    page.get_by_label("value", exact=True).fill("-1")
    press(page, "Train in step")
    expect(page.get_by_role("alert")).to_contain_text("lr")

    page.get_by_label("The second run has").select_option("no-mask")
    press(page, "Train in step")
    expect(found).to_contain_text("attention")
    page.evaluate("location.hash = '#diverged=nothing-like-it'")
    expect(page.get_by_role("alert")).to_contain_text("There is nothing called nothing-like-it")
