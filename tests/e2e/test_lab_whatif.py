"""What if? A run is trained, forked at one of its steps with one change, and what came of it is told."""

from lab_helpers import opened, press
from page_access import AXE, grave_faults
from playwright.sync_api import expect


def test_a_run_is_forked_where_a_part_is_set_to_zero(open_page):
    page = opened(open_page, "whatif")
    press(page, "Train one")
    expect(page.get_by_text("after step 160, where")).to_be_visible()
    page.get_by_role("slider").press("End")
    expect(page.get_by_text("after step 320, where")).to_be_visible()
    page.get_by_label("From there on").select_option("without-blocks.1.mlp")
    expect(page.get_by_role("button", name="Fork and train")).to_be_disabled()
    page.get_by_label("better").check()
    expect(page.get_by_text("3 runs of ours (tiny, 400 steps), changed so after step 384")).to_be_visible()
    page.evaluate(AXE.read_text())
    assert not list(grave_faults(page, "a lab"))
    press(page, "Fork and train")
    expect(page.locator("[data-outcome]")).to_contain_text("worse. You said better.")
    assert page.locator("[data-outcome]").get_attribute("data-outcome") == "worse"
    page.get_by_role("link", name="My models", exact=True).last.click()
    expect(page.get_by_text("the MLP of layer 2 set to zero from step").first).to_be_visible()
