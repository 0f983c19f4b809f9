"""Derive and check, and find the mutant: a near miss is shown where it is wrong, what is right passes and trains."""

import re

import pytest
from lab_helpers import opened, press, type_text
from page_access import AXE, grave_faults
from playwright.sync_api import expect

from tinygpt.edits import PACKAGE, read_edit
from tinygpt.edits.patch import patched
from tinygpt.labs.derive.check import lab_named


def test_a_near_miss_is_seen_where_it_is_wrong_and_the_solution_trains(open_page):
    lab = lab_named("gelu")
    page = opened(open_page, "derive=gelu")
    press(page, "Check")
    expect(page.get_by_role("alert")).to_contain_text("Line 3: There is nothing called dx here.")
    type_text(page, lab.solution.replace(*lab.near[1], 1))
    press(page, "Check")
    expect(page.get_by_role("status")).to_contain_text("dx is wrong in 6 of 6 places, where F = 3, N = 2")
    expect(page.get_by_role("img", name="Where dx is wrong")).to_be_visible()
    type_text(page, lab.solution)
    press(page, "Check")
    expect(page.get_by_role("status")).to_contain_text("Right: 5 comparisons on 4 shapes")
    page.evaluate(AXE.read_text())
    assert not list(grave_faults(page, "a lab"))
    press(page, "Train with it")
    expect(page.get_by_role("region", name="The run")).to_contain_text(re.compile("Step ([3-9]|[1-3][0-9]) of 40"))
    press(page, "Stop")
    expect(page.get_by_role("button", name="Check", exact=True)).to_be_enabled()


@pytest.mark.slow
def test_a_mutant_is_named_and_mended(open_page):
    page = opened(open_page, "mutants")
    page.get_by_role("link", name="Mutant 14").click()
    expect(page.get_by_text("What it writes falls apart after the first bytes")).to_be_visible()
    press(page, "Next hint (1 of 3)")
    press(page, "Is it mended?")
    expect(page.get_by_text("Not yet. The first number that differs: what it says after")).to_be_visible()
    page.get_by_label("The fault is in").select_option("kernels/sample.py sample")
    press(page, "That is it")
    expect(page.get_by_text("Look once more")).to_be_visible()
    page.get_by_label("The fault is in").select_option("kernels/attention.py attention_one")
    press(page, "That is it")
    expect(page.get_by_text("Yes, there it is")).to_be_visible()
    expect(page.locator("[data-editor] .cm-activeLine")).to_contain_text("def attention_one(")
    type_text(page, (PACKAGE / "kernels/attention.py").read_text())
    press(page, "Is it mended?")
    expect(page.get_by_text("Mended. All")).to_be_visible()
    expect(page.get_by_text("a stale cache")).to_be_visible()
    page.get_by_role("link", name="All mutants").first.click()
    expect(page.get_by_text("mended", exact=True)).to_be_visible()


@pytest.mark.slow
def test_the_editor_shows_the_faulty_source(open_page):
    page = opened(open_page, "mutant-09")
    page.get_by_label("A file").select_option("kernels/linear.py")
    source = page.locator("[data-editor] .cm-content")
    source.click()
    page.keyboard.press("ControlOrMeta+End")
    expect(source).to_contain_text("dy.mean(axis=0)")
    ((file, hunks),) = read_edit("mutant-09").files.items()
    assert "dy.mean(axis=0)" in patched((PACKAGE / file).read_text(), hunks, file)
