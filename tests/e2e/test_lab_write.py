"""Write the kernel: what is wrong is told in the reader's lines and shown in place, what is right passes and trains."""

import re
from pathlib import Path

import pytest
from lab_helpers import opened, press, type_text
from page_access import AXE, grave_faults
from playwright.sync_api import expect

from tinygpt.labs.wgsl.check import lab_named

KERNELS = Path(__file__).parents[2] / "tinygpt" / "kernels"


def solution(lab):
    return lab.cut((KERNELS / lab.file).read_text())[1]


def test_a_kernel_is_written_checked_and_passes(open_webgpu_page):
    lab = lab_named("embed")
    page = opened(open_webgpu_page, "write=embed")
    expect(page.get_by_role("region", name="kernels/embed.wgsl, above")).to_contain_text("fn embed(")
    type_text(page, "  let row = wte[u32(tokens[n]) * words + column];\n")
    press(page, "Check")
    expect(page.get_by_role("alert")).to_have_text("Line 1: There is nothing called column here.")
    type_text(page, "  for (var k = 0u; k < 1u; k += t - t) { }\n" + solution(lab))
    press(page, "Check")
    expect(page.get_by_role("alert")).to_have_text(re.compile("A loop of yours did not end within 4,096 rounds"))
    type_text(page, solution(lab).replace("+=", "=", 1))
    press(page, "Check")
    expect(page.get_by_role("status")).to_contain_text(
        "x is wrong in 30 of 30 places, where C = 5, N = 6, T = 3, V = 7"
    )
    expect(page.get_by_role("img", name="Where x is wrong")).to_be_visible()
    type_text(page, solution(lab))
    press(page, "Check")
    expect(page.get_by_role("status")).to_contain_text("Right: 3 comparisons on 3 shapes")
    expect(page.get_by_text("A call takes")).to_be_visible()
    page.evaluate(AXE.read_text())
    assert not list(grave_faults(page, "a lab"))
    page.goto(page.url.replace("#write=embed", "#write"))
    expect(page.get_by_role("listitem").filter(has_text="Embedding").first).to_contain_text("solved")


def test_without_webgpu_a_lab_is_there_to_read(open_page):
    page = opened(open_page, "write=rmsnorm")
    expect(page.get_by_role("status")).to_contain_text("This browser has no WebGPU, so kernels cannot run here")
    expect(page.get_by_role("button", name="Check", exact=True)).to_be_disabled()
    press(page, "Show our lines")
    expect(page.get_by_text("let scale = inverseSqrt(")).to_be_visible()


@pytest.mark.slow
def test_what_is_solved_is_what_trains_beside_ours(open_webgpu_page):
    lab = lab_named("rmsnorm-backward")
    page = opened(open_webgpu_page, "write=rmsnorm-backward")
    type_text(page, solution(lab))
    press(page, "Check")
    expect(page.get_by_role("status")).to_contain_text("Right: 6 comparisons on 3 shapes")
    press(page, "Train with it")
    compiled_twice = 600_000
    expect(page.get_by_role("region", name="The run")).to_contain_text(
        "They end at the same loss", timeout=compiled_twice
    )
