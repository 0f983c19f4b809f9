"""Which op diverged first? Two runs in step, that differ in a setting, in one that is refused, in an edit."""

import re

from lab_helpers import opened, press
from page_access import AXE, grave_faults
from playwright.sync_api import expect


def test_the_first_op_is_named_for_a_setting_and_for_an_edit(open_page):
    page = opened(open_page, "diverged=smoothing")
    press(page, "Train in step")
    found = page.locator("[data-parted]")
    expect(found).to_contain_text("cross_entropy: losses differs. 100 % of its numbers do")
    expect(found).to_contain_text("Its cause: label_smoothing is 0 and 0.1. So at this op smoothing is 0 and 0.1.")
    expect(page.get_by_role("region", name="The op")).to_contain_text("def cross_entropy(")
    expect(page.get_by_role("region", name="How it spreads").locator(".first")).to_contain_text("cross_entropy")
    page.evaluate(AXE.read_text())
    assert not list(grave_faults(page, "a lab"))

    page.get_by_label("The second run has").select_option("own")
    expect(found).to_have_count(0)  # it was of another choice
    page.get_by_label("setting", exact=True).fill("lr")
    page.get_by_label("value", exact=True).fill("-1")
    press(page, "Train in step")
    expect(page.get_by_role("alert")).to_contain_text(re.compile("^lr "))
    page.get_by_label("setting", exact=True).fill("lrr")
    press(page, "Train in step")
    expect(page.get_by_role("alert")).to_have_text("There is no setting 'lrr'; did you mean 'lr'?")

    page.get_by_label("The second run has").select_option("lost-mean-term")
    page.get_by_label("recipe").select_option("classic")
    press(page, "Train in step")
    expect(found).to_contain_text("layernorm_backward: dx differs")
    expect(found).to_contain_text("Its cause: the edit.")
    edit = page.get_by_role("region", name="The edit")
    expect(edit.locator(".removed")).to_contain_text("dn - through_mean - through_rstd")
    expect(edit.locator(".added")).to_contain_text("dn - through_mean)")
    page.evaluate("location.hash = '#diverged=nothing-like-it'")
    expect(page.get_by_role("alert")).to_contain_text("There is nothing called nothing-like-it")
