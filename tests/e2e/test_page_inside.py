"""Looking inside in the page: what is seen of a model is what the terminal sees of its file."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from page_helpers import OpenPage, check, choose_text, click, press, save, show, stop, wait_for_step
from page_toy import TINY, go_on_with, untrained
from playwright.sync_api import Locator, Page, expect

import tinygpt
from tinygpt.core.look.inside import DIGITS, flow_of
from tinygpt.data import load_corpus
from tinygpt.inside.look import Look, look_into
from tinygpt.inside.origins import Source, origins_of
from tinygpt.inside.parts import scaled_model
from tinygpt.store.formats import Checkpoint, load_tinygpt

pytestmark = pytest.mark.xdist_group("page-kept")
HEAR = """
const Plain = Worker;
window.Worker = class extends Plain {
  constructor(...given) {
    super(...given);
    this.addEventListener("message", ({ data }) => {
      if (data.answer?.attention) window.heard = data.answer;
      if (data.answer?.covered) window.traced = data.answer;
      if (data.answer?.values?.length) window.mattered = data.answer;
    });
  }
};
"""
HEARD = "() => JSON.stringify(window.heard, (_, value) => (ArrayBuffer.isView(value) ? Array.from(value) : value))"
ENGINES = 2e-5  # of the largest value: how far two engines' tensors lie apart (tests/engines/test_looking.py)
SHOWN = 10.0 ** (1 - DIGITS)  # the terminal's data is rounded to so many digits
TEXT = "To be, or not to be: ü that is"


def heard(page: Page, condition: str) -> dict[str, Any]:
    """What the worker has said last, once it is what is waited for."""
    page.wait_for_function(f"() => window.heard && (({{text, step, tensor, losses}}) => {condition})(window.heard)")
    found: dict[str, Any] = json.loads(page.evaluate(HEARD))
    return found


def assert_as_the_terminal_sees_it(seen: dict[str, Any], checkpoint: Checkpoint) -> Look:
    flowing = [name for one in flow_of(checkpoint.config.model) for name in one[1:] if name]
    names = ["blocks.*.p", "blocks.*.lens", "logits", *flowing] + ([seen["tensor"]["name"]] if seen["tensor"] else [])
    look = look_into(checkpoint, bytes(seen["text"]), tensors=names, window=256)
    expected = {one.name: one.values for one in look.tensors}
    layers = checkpoint.config.model.layers
    got = {f"blocks.{i}.p": values for i, values in enumerate(seen["attention"])}
    got |= {name: seen["lenses"][i] for i, name in enumerate([*(f"blocks.{i}.lens" for i in range(layers)), "logits"])}
    for expects, flow in zip(flow_of(checkpoint.config.model), seen["flow"], strict=True):
        assert flow["part"] == expects.part
        got |= {expects.stream: flow["stream"]} | ({expects.made: flow["made"]} if expects.made else {})
    if seen["tensor"]:
        got[seen["tensor"]["name"]] = seen["tensor"]["values"]
        assert tuple(seen["tensor"]["shape"]) == expected[seen["tensor"]["name"]].shape
    assert set(got) == set(expected) and seen["first"] == look.data["first"] and seen["heads"] > 1
    for name, values in got.items():
        bound = ENGINES * np.abs(expected[name]).max()
        np.testing.assert_allclose(values, expected[name].ravel(), rtol=0, atol=bound, err_msg=name)
    apart = 2 * ENGINES * np.abs(expected["logits"]).max()  # a loss is a difference of logits, or nearly
    np.testing.assert_allclose(seen["losses"], look.data["losses"], rtol=SHOWN, atol=apart)
    return look


def test_what_is_seen_inside_is_what_the_terminal_sees(open_page: OpenPage, tmp_path: Path) -> None:
    page = open_page(prepare=lambda page: page.add_init_script(HEAR))
    check(page.get_by_label("tiny", exact=True))
    choose_text(page, "shakespeare")
    press(page, "Train")
    wait_for_step(page, 1)
    show(page, "inside")
    first = heard(page, "step > 0")["step"]
    heard(page, f"step > {first}")  # again, while it trains
    show(page, "train")
    at = stop(page)
    checkpoint = load_tinygpt(save(page, tmp_path))

    show(page, "inside")
    source = page.get_by_label("A text that the model reads")
    source.fill(TEXT)
    size = len(TEXT.encode())
    look = assert_as_the_terminal_sees_it(heard(page, f"text.length === {size} && step === {at}"), checkpoint)

    # The page's own words: a byte chosen by keys, what is likely behind it, where it looks.
    page.get_by_role("listbox").press("Home")
    page.get_by_role("listbox").press("ArrowRight")
    loss = look.data["losses"][0]
    apart = max(2 * ENGINES * float(np.abs(one.values).max()) for one in look.tensors if one.name == "logits")
    expect(page.locator("[data-inside=chosen]")).to_have_text(
        re.compile(
            rf"“o”, letter 2: the model gave it {percent(np.exp(-loss), apart)} "
            rf"\(loss {near('{:.3g}', loss, apart)}\)\."
        )
    )
    lens = look.data["inside"]["lens"]
    layers = checkpoint.config.model.layers
    behind = [page.locator(f"[data-layer='{layer}']") for layer in (0, layers)]
    for row, opinion in zip(
        [*behind, page.locator("[data-inside=next] tr").first], (lens[0][1], lens[-1][1], lens[-1][1]), strict=True
    ):
        expect(row).to_contain_text(re.compile(percent(opinion["top"][0][1], apart)))
    page.locator(".inside details").evaluate("details => { details.open = true; }")
    page.get_by_label("Head", exact=True).select_option("1")
    page.get_by_role("application").first.press("ArrowLeft")
    weight = look.data["inside"]["attention"][0][1][1][0]
    expect(page.locator("[data-inside=attention]")).to_have_text(
        re.compile(rf"“o” \(byte 1\) takes {percent(weight, apart)} from “T” \(byte 0\)\.")
    )

    # Parts that count for less, and tensors: a gradient, and a weight's.
    press(page, "the attention of layer 1")
    page.get_by_role("switch", name="head 2").uncheck()
    press(page, "the MLP of layer 1")
    page.get_by_label("how much the MLP of layer 1 counts").fill("0.5")
    scaled = scaled_model(checkpoint, ["blocks.0.head.1"], ["blocks.0.mlp=0.5"])
    for name in ("blocks.1.dqkv", "dblocks.0.attn.qkv.weight"):
        page.get_by_label("Tensor", exact=True).select_option(name)
        expect(page.locator("[data-changed] b")).to_have_text("Without head 2 of layer 1; the MLP of layer 1 × 0.5.")
        changed = assert_as_the_terminal_sees_it(heard(page, f"tensor?.name === '{name}'"), scaled)
        norm = float(np.linalg.norm(changed.tensors[-1].values))
        expect(page.locator("[data-inside=tensor]")).to_contain_text(
            re.compile(f"norm {near('{:.3g}', norm, ENGINES * norm)}")
        )
    means = [np.mean(one.data["losses"]) for one in (changed, look)]
    expect(page.locator("[data-inside=loss]")).to_contain_text(
        re.compile(f"mean loss {near('{:.3f}', means[0], apart)}")
    )
    expect(page.locator("[data-inside=loss]")).to_contain_text(
        re.compile(f"{near('{:.3f}', means[1], apart)} with all parts on")
    )
    press(page, "Switch all on again")

    # A text that is longer than the context; where it was learnt; one that is too short; a model that is a file only.
    long = TEXT * 9
    source.fill(long)
    assert_as_the_terminal_sees_it(heard(page, f"text.length === {9 * size}"), checkpoint)
    assert_stretches_are_the_terminals(page, source, checkpoint.config.train.val_fraction)
    source.fill("x")
    expect(page.locator(".inside").get_by_role("alert")).to_contain_text("must have 2 to 2048 bytes, not 1")
    page.reload()
    page.wait_for_selector("[data-phase=idle]")
    show(page, "train")
    page.locator("input[accept^='.tinygpt,']").set_input_files(next(tmp_path.glob("*.tinygpt")))
    show(page, "inside")
    assert_as_the_terminal_sees_it(heard(page, f"step === {at}"), checkpoint)


def test_a_small_model_is_there_to_look_into_and_its_layers_can_be_switched_off(open_page: OpenPage) -> None:
    page = open_page(view="inside", prepare=lambda page: page.add_init_script(HEAR))
    expect(page.locator("[data-inside=step]")).to_have_text("shakespeare-small.tinygpt, step 4,800")
    text, model = page.get_by_label("A text that the model reads").input_value(), tinygpt.load("shakespeare-small")
    heads = model.config.model.layers * model.config.model.heads
    expect(page.get_by_role("button", name=re.compile(r"Layer \d+, head \d+ looks at"))).to_have_count(heads)
    was = model.next_bytes(text)
    byte = int(was.argmax())
    page.get_by_role("switch", name="layer 2").uncheck()
    now = model.scaled({"blocks.1": 0}).next_bytes(text)[byte]
    shown = page.locator("[data-inside=guess] span").first
    expect(shown).to_contain_text(
        re.compile(f"{re.escape(chr(byte))} {percent(was[byte], 10 * ENGINES)}→ {percent(now, 10 * ENGINES)}")
    )
    expect(shown).to_be_in_viewport()
    expect(page.get_by_role("button", name="Layer 2, head 1 switched off")).to_be_visible()


def test_why_a_letter_is_there_and_how_the_model_writes_without_a_part(open_page: OpenPage) -> None:
    page = open_page(view="home", prepare=lambda page: page.add_init_script(HEAR))
    click(page.get_by_role("button", name="Come, good my mind"))
    written = page.locator(".panes article .written").first
    page.locator("[data-pace=done]").filter(has_text="letters").wait_for()
    page.wait_for_selector("[data-phase=idle]")
    text = written.inner_text()
    written.focus()
    for _ in range(1 + len("Come, good my mind")):  # the first key chooses the first letter after the prompt
        page.keyboard.press("ArrowRight")
    press(page, "Why this letter?")
    page.wait_for_function("() => window.mattered")
    upto = text[: len("HAMLET.\nCome, good my mind;")]
    found = json.loads(page.evaluate(HEARD.replace("heard", "mattered")))
    assert bytes(found["text"]).decode() == upto and found["at"] == len(upto) - 2
    expect(page.locator(".told")).to_contain_text("of the guess after “d”.")
    expect(page.locator("[data-inside=next] .follows th")).to_have_text(";")

    page.get_by_role("switch", name="layer 2").uncheck()
    click(page.get_by_role("link", name="Let it write like this"))
    panes = page.locator(".panes article")
    expect(panes).to_have_count(2)
    page.locator("[data-pace=done]").filter(has_text="letters").nth(1).wait_for()
    page.get_by_label("Temperature", exact=True).fill("0")
    page.get_by_label("Length", exact=True).fill("40")
    press(page, "Write")
    model = tinygpt.load("shakespeare-small")
    for pane, writer in zip(panes.all(), (model, model.scaled({"blocks.1": 0})), strict=True):
        expect(pane.locator(".written")).to_have_text(upto + writer.generate(upto, tokens=40, temperature=0))
    expect(panes.nth(1).locator("footer b")).to_have_text("shakespeare-small without layer 2")
    press(page, "Switch all on again")
    expect(panes).to_have_count(1)
    expect(page.locator("[data-changed]")).to_have_count(0)


def test_which_letters_mattered_is_what_hiding_each_of_them_changes(open_page: OpenPage) -> None:
    page = open_page(view="inside", prepare=lambda page: page.add_init_script(HEAR))
    page.get_by_label("A text that the model reads").fill("what light thro")
    heard(page, "text.length === 15")
    page.get_by_label("What mattered").check()
    page.wait_for_function("() => window.mattered")
    found = json.loads(page.evaluate(HEARD.replace("heard", "mattered")))
    model, text = tinygpt.load("shakespeare-small"), "what light thro"
    plain, expected = model.next_bytes(text), []
    for place, letter in enumerate(text):
        others = [other for other in " et" if other != letter][:2]
        changed = [model.next_bytes(text[:place] + other + text[place + 1 :]) for other in others]
        expected.append(np.mean([np.abs(plain - one).sum() / 2 for one in changed]))
    np.testing.assert_allclose(found["values"], expected, rtol=0, atol=1e-4)
    top = int(np.argmax(expected[:-1]))
    expect(page.locator(".told")).to_contain_text(f"Of the earlier letters “{text[top]}”")
    expect(page.locator("path.mattered")).not_to_have_count(0)


@pytest.mark.slow
def test_what_is_seen_is_the_model_that_trains_on_a_gpu(open_webgpu_page: OpenPage, tmp_path: Path) -> None:
    page = open_webgpu_page(prepare=lambda page: page.add_init_script(HEAR))
    go_on_with(page, untrained(tmp_path / "untrained.tinygpt", TINY.replace(steps=5000)), "webgpu")
    wait_for_step(page, 1)
    show(page, "inside")
    heard(page, "step > 0")
    show(page, "train")
    at = stop(page)
    checkpoint = load_tinygpt(save(page, tmp_path))
    show(page, "inside")
    assert_as_the_terminal_sees_it(heard(page, f"step === {at}"), checkpoint)


def assert_stretches_are_the_terminals(page: Page, source: Locator, val_fraction: float) -> None:
    learnt, held_out = load_corpus("shakespeare").split(val_fraction)
    text = learnt[5000:5100].decode() + "ü" + held_out[:80].decode() + " zqz zqz " + learnt[9000:9030].decode()
    check(page.get_by_label("Found in the training text"))
    source.fill(text)
    page.wait_for_function(f"() => window.traced?.covered.length === {len(text.encode())}")
    seen = json.loads(page.evaluate(HEARD.replace("heard", "traced")))
    expected = origins_of(text.encode(), Source(learnt), held_out)
    assert seen["covered"] == expected.covered and seen["byChance"] == expected.by_chance
    assert seen["remembered"] == pytest.approx(expected.share())
    longest = sorted(expected.stretches, key=lambda stretch: (-stretch.length, stretch.start))[:3]
    assert [(one["start"], one["length"]) for one in seen["stretches"]] == [tuple(one)[:2] for one in longest]
    for one in seen["stretches"]:
        assert learnt[one["place"] : one["place"] + one["length"]].decode(errors="replace") == one["text"]
    expect(page.locator("[data-inside=origins]")).to_contain_text(f"more than {expected.by_chance} bytes of")


def near(form: str, value: float, apart: float) -> str:
    """A pattern of what that number reads like, where another engine's may be so far away and round differently."""
    texts = [form.format(number) for number in (value - apart, value, value + apart)]
    return f"(?:{'|'.join(re.escape(f'{float(text):g}') if 'g' in form else re.escape(text) for text in texts)})"


def percent(p: float, apart: float) -> str:
    """The same of a probability, where logits differ so far."""
    return near("{:.1f} %", 100 * p, 100 * p * apart)
