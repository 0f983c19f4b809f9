"""Edit the step: the check finds a fault, an endless loop is stopped, the mended step trains beside the original."""

import pytest
from lab_helpers import opened, press, type_text
from playwright.sync_api import expect

from tinygpt.edits import read_edit


def test_an_edit_is_planned_checked_stopped_and_trained(open_page, tmp_path):
    page = opened(open_page, "edit=lost-gradient")
    press(page, "Plan")
    expect(page.get_by_role("region", name="Ops of a step")).to_contain_text("- blocks.1.dx_mid")
    press(page, "Check")
    expect(page.get_by_role("status").filter(has_text="gradients are wrong")).to_contain_text(
        "Going backward, blocks.1.attn.o_proj.bias is the first"
    )
    with page.expect_download() as coming:
        press(page, "Download")
    coming.value.save_as(tmp_path / "my.patch")
    ours, ready = read_edit(str(tmp_path / "my.patch")), read_edit("lost-gradient")
    assert ours.files == ready.files and ours.about == ready.about

    page.get_by_label("A file").select_option("core/optimizers/sgd.py")
    type_text(page, "while True:\n    pass\n")
    press(page, "Plan")
    press(page, "Stop")
    expect(page.get_by_role("button", name="Plan", exact=True)).to_be_enabled()
    type_text(page, "def broken(:\n    pass\n")
    press(page, "Plan")
    expect(page.get_by_role("alert")).to_contain_text("Python cannot read this line")
    expect(page.get_by_role("button", name="core/optimizers/sgd.py, line 1")).to_be_visible()

    page.get_by_role("button", name="reset").nth(1).click()
    page.get_by_label("steps").fill("20")
    press(page, "Train")
    expect(page.get_by_role("region", name="The run")).to_contain_text("means of the last 20 steps")
    assert (
        page.locator(".u-over").first.evaluate("over => getComputedStyle(over).position") == "absolute"
    )  # has its style


@pytest.mark.slow
def test_an_edit_of_the_specification_trains_on_it_alone_and_a_link_carries_it(open_page):
    page = opened(open_page, "edit=no-mask")
    expect(page.get_by_text("has a C++ counterpart, which cannot be compiled in a tab")).to_be_visible()
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    press(page, "Copy link")
    address = page.evaluate("navigator.clipboard.readText()")
    page.get_by_label("steps").fill("20")
    press(page, "Train")
    run = page.get_by_role("region", name="The run")
    expect(run).to_contain_text("the specification")
    expect(run).to_contain_text("means of the last 20 steps")
    page.goto("about:blank")
    page.goto(address)
    expect(page.get_by_text("This link changes kernels/attention.py (1 lines out, 1 in)")).to_be_visible()


@pytest.mark.slow
def test_edited_wgsl_trains_on_webgpu_alone(open_webgpu_page):
    page = opened(open_webgpu_page, "edit")
    page.get_by_label("A file").select_option("kernels/adamw.wgsl")
    page.locator("[data-editor] .cm-content").click()
    page.keyboard.insert_text("// mine\n")
    expect(page.get_by_text("WGSL runs on WebGPU alone")).to_be_visible()
    page.get_by_label("recipe").select_option("classic")
    page.get_by_label("steps").fill("10")
    press(page, "Train")
    compiled_twice = 600_000
    expect(page.get_by_role("region", name="The run")).to_contain_text(
        "They end at the same loss", timeout=compiled_twice
    )
