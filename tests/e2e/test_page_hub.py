"""The Hugging Face Hub in the page: published there, opened from there, and nothing is asked of it before."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import numpy as np
import pytest
from page_helpers import OpenPage, press, show
from playwright.sync_api import Error, Page, Route, expect

from tinygpt.store.bundled import named
from tinygpt.store.formats import load_file, load_safetensors, load_tinygpt

sys.path.insert(0, str(Path(__file__).parents[1] / "hub"))
from fake_hub import TOKEN, FakeHub

pytestmark = pytest.mark.xdist_group("page")
HUB = "https://huggingface.co"
PASSED = ("authorization", "content-type", "range")
ALLOWED = {"Access-Control-Allow-Origin": "*", "Access-Control-Expose-Headers": "*"}


@pytest.fixture
def hub() -> Iterator[FakeHub]:
    fake = FakeHub(HUB)
    yield fake
    fake.close()


@pytest.fixture
def page(open_page: OpenPage, hub: FakeHub) -> Page:
    def answer(route: Route) -> None:
        asked = route.request
        headers = {name: value for name, value in asked.headers.items() if name in PASSED}
        address = asked.url.replace(HUB, hub.url)
        try:
            answer = urlopen(Request(address, asked.post_data_buffer, headers, method=asked.method))
        except HTTPError as refused:
            answer = refused
        with answer, suppress(Error):
            route.fulfill(status=answer.status, headers=dict(answer.headers) | ALLOWED, body=answer.read())

    return open_page(beyond=(HUB,), prepare=lambda page: page.route(f"{HUB}/**", answer))


def publish(page: Page, name: str, token: str = TOKEN) -> None:
    show(page, "share")
    page.locator("input[name=hub-name]").fill(name)
    page.locator("input[name=hub-token]").fill(token)
    press(page, "Publish")


@pytest.mark.parametrize("name", ["addition", "shakespeare-small"])
def test_a_model_goes_there_and_comes_back(page: Page, hub: FakeHub, tmp_path: Path, name: str) -> None:
    page.locator("input[accept^='.tinygpt,']").set_input_files(named()[name])
    expect(page.get_by_role("alert")).to_contain_text("Loaded")
    assert hub.asked == []
    publish(page, "me/mine")
    expect(page.locator("[data-way=hub] [role=status]")).to_contain_text(f"Published at {HUB}/me/mine")
    files, model = hub.models["me/mine"], load_file(named()[name])
    for file, content in files.items():
        (tmp_path / file).write_bytes(content)
    for got in (load_tinygpt(tmp_path / "model.tinygpt"), load_safetensors(tmp_path / "model.safetensors")):
        np.testing.assert_array_equal(got.state.w, model.state.w)
        assert got.config.model == model.config.model and got.progress.step == model.progress.step
        if model.state.tables is not None:
            np.testing.assert_array_equal(got.state.tables.rows, model.state.tables.rows)
    assert f"# {name}" in files["README.md"].decode() and files["loss.png"].startswith(b"\x89PNG")

    page.evaluate("location.hash = '#model=hf:me/mine'")
    asked = len(hub.asked)
    expect(page.locator("input[name=hub-model]")).to_have_value("me/mine")
    assert len(hub.asked) == asked
    press(page, "Open")
    page.wait_for_function("() => location.hash === '#play'")
    expect(page.locator("main")).to_contain_text("mine.tinygpt")


@pytest.mark.parametrize(
    ("name", "token", "said"),
    [
        ("mine", TOKEN, "Write where it goes as user/name"),
        ("me/mine", "", "Paste a token that may write"),
        ("me/mine", "hf_wrong", "The Hub does not let you do this with me/mine"),
    ],
)
def test_what_is_missing_is_said(page: Page, hub: FakeHub, name: str, token: str, said: str) -> None:
    page.locator("input[accept^='.tinygpt,']").set_input_files(named()["addition"])
    expect(page.get_by_role("alert")).to_contain_text("Loaded")
    publish(page, name, token)
    expect(page.locator("[data-way=hub] [role=alert]")).to_contain_text(said)
    assert hub.models == {}


def test_a_name_that_is_not_there_is_said(page: Page, hub: FakeHub) -> None:
    page.evaluate("location.hash = '#model=hf:me/none'")
    press(page, "Open")
    expect(page.locator("[data-way=from-hub] [role=alert]")).to_contain_text("me/none")
