"""Texts for the page: files, folders and Hugging Face. Whatever they hold is text, and what they are like is said."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from page_helpers import OpenPage, check, choose_text, fact, press, stop, wait_for_step
from playwright.sync_api import Error, Page, Route, expect

from tinygpt.core.hub.names import SERVER
from tinygpt.data import load_corpus
from tinygpt.data.survey import survey

sys.path.insert(0, str(Path(__file__).parents[1] / "data"))
from fake_datasets_server import FakeDatasetsServer, Reply

pytestmark = pytest.mark.xdist_group("page-kept")
HOSTILE = "<img src=x onerror=\"document.title='caught'\"><script>document.title='caught'</script>"


def expect_facts(page: Page, text: bytes) -> None:
    found = survey(text)
    shown = page.locator("[data-fact=survey]")
    expect(shown).to_contain_text(f"{found['words']:,}, {found['vocabulary']:,} different ones")
    expect(shown).to_contain_text(f"{found['different']} of 256 occur")
    expect(shown).to_contain_text(f"{100 * found['repeats']:.1f} % of its 24-byte stretches")
    expect(shown).to_contain_text(", ".join(word for word, _ in found["common"]))


def expect_harmless(page: Page) -> None:
    assert page.title() == "TinyGPT" and page.locator("img").count() == 0


@pytest.mark.slow
def test_files_and_folders_are_text_whatever_they_hold(open_page: OpenPage, tmp_path: Path) -> None:
    page = open_page()
    book = (load_corpus("moby-dick").text[5000:40_000] + "Ωμέγα's naïve café, naïve café.".encode()) * 2
    file = tmp_path / f"{HOSTILE.replace('/', '')}.txt"
    file.write_bytes(book)
    choose_text(page, "own")
    page.get_by_label("Choose a file").set_input_files(file)
    expect(page.get_by_text(file.name)).to_be_visible()
    press(page, "more about this text")
    expect_facts(page, book)
    expect(page.locator(".advice")).to_have_count(0)
    check(page.get_by_label("massive", exact=True))
    expect(page.locator(".advice").first).to_contain_text("The corpus is far too small for this model")
    check(page.get_by_label("tiny", exact=True))
    expect(page.locator(".advice")).to_have_count(0)

    folder = tmp_path / "notes"
    (folder / "a-folder").mkdir(parents=True)
    for name, content in (
        ("b.html", f"{HOSTILE} " * 50),
        ("a-folder/c.txt", "the last of all words is " + "wonderful " * 30),
        ("a.txt", "the first of all words " * 20),
        (".hidden", "nobody sees this"),
        ("empty.txt", ""),
        ("image.png", "\0\1\2"),
    ):
        (folder / name).write_text(content)
    expected = load_corpus(file=folder)
    page.get_by_label("a folder").set_input_files(folder)
    expect(page.get_by_text("3 text files, 2 left out as binary or empty.")).to_be_visible()
    expect(page.get_by_text(f"{len(expected.text):,} letters; stays on this machine")).to_be_visible()
    expect_facts(page, expected.text)
    expect_harmless(page)

    press(page, "Remove notes")
    drop(page, folder)
    expect(page.get_by_text("3 text files, 2 left out as binary or empty.")).to_be_visible()
    expect_facts(page, expected.text)
    drop(page, file)
    expect_facts(page, book)

    (tmp_path / "broken.gz").write_bytes(b"not packed")
    drop(page, tmp_path / "broken.gz")
    expect(page.get_by_role("alert")).to_contain_text("broken.gz is not a whole gzip file: unpack it, or rename it.")
    press(page, "Train")
    wait_for_step(page, 5)
    stop(page)
    expect_harmless(page)


def drop(page: Page, path: Path) -> None:
    """As from the desktop."""
    box = page.get_by_role("group", name="The text").bounding_box()
    assert box is not None
    devtools = page.context.new_cdp_session(page)
    for kind in ("dragEnter", "dragOver", "drop"):
        data = {"items": [], "files": [str(path)], "dragOperationsMask": 1}
        devtools.send("Input.dispatchDragEvent", {"type": kind, "x": box["x"] + 5, "y": box["y"] + 5, "data": data})


class Hub:
    """Plays Hugging Face's host: what the page asks of that goes to a server on loopback, or is held back."""

    def __init__(self, server: FakeDatasetsServer) -> None:
        self.server = server
        self.hold = False
        self.held: list[Route] = []

    def answer(self, route: Route) -> None:
        if self.hold:
            self.held.append(route)
            return
        headers = {"Authorization": route.request.headers["authorization"]} if self.token(route) else {}
        request = Request(route.request.url.replace(SERVER, self.server.url), headers=headers)
        try:
            answer = urlopen(request)
        except HTTPError as refused:
            answer = refused
        allowed = {"Access-Control-Allow-Origin": "*", "Access-Control-Expose-Headers": "Retry-After"}
        with answer, suppress(Error):
            route.fulfill(status=answer.status, headers=dict(answer.headers) | allowed, body=answer.read())

    def token(self, route: Route) -> bool:
        return "authorization" in route.request.headers


@pytest.mark.slow
def test_a_dataset_of_hugging_face(open_page: OpenPage) -> None:
    server = FakeDatasetsServer()
    server.add("o/stories", [{"id": i, "text": f"story {i:04} {HOSTILE}"} for i in range(250)])
    server.add("o/stories", [{"id": 1, "text": "a test"}], config="other", split="test")
    server.add("o/pairs", [{"question": "why?", "answer": "because"}] * 40)
    hub = Hub(server)
    elsewhere: list[dict[str, str]] = []

    def prepare(page: Page) -> None:
        page.on("request", lambda sent: elsewhere.append(sent.headers) if not sent.url.startswith(SERVER) else None)
        page.route(f"{SERVER}/**", hub.answer)

    page = open_page(prepare=prepare, beyond=(SERVER,))
    check(page.get_by_label("tiny", exact=True))
    choose_text(page, "hub")
    page.locator("select[name=dataset]").select_option("")
    name = page.locator("input[name=dataset-name]")
    fault = page.locator(".fault")
    name.fill("https://huggingface.co/datasets/o/stories")
    page.locator("input[name=token]").fill("secret")
    press(page, "Train")
    expect(page.get_by_role("alert")).to_contain_text("There is no text of that dataset yet: press Fetch first.")
    assert not server.requests  # nobody has asked for anything

    press(page, "Look it up")
    expect(page.locator("select[name=column]")).to_have_value("text")
    expect(page.locator("pre", has_text="story 0000 <img")).to_be_visible()
    page.locator("select[name=config]").select_option("other")
    expect(page.locator("select[name=split]")).to_have_value("test")
    expect(page.locator("pre", has_text="a test")).to_be_visible()
    page.locator("select[name=config]").select_option("default")
    expect(page.locator("select[name=split]")).to_have_value("train")

    server.requests.clear()
    press(page, "Fetch")
    expect(page.locator("[data-fact=fetched]")).to_contain_text("250 rows, column text of o/stories (default, train)")
    text = b"\n\n".join(f"story {i:04} {HOSTILE}".encode() for i in range(250))
    assert [request.query["offset"] for request in server.requests] == ["0", "100", "200"]
    assert {request.authorization for request in server.requests} == {"Bearer secret"}
    assert f"{len(text):,} bytes" in fact(page, "fetched")
    press(page, "more about this text")
    expect_facts(page, text)

    page.locator("input[name=megabytes]").fill("0.001")
    server.replies = [Reply(429, headers={"Retry-After": "2"})]
    press(page, "Fetch")
    expect(page.locator("[data-fact=fetched]")).to_contain_text("The server is busy; again in 2 s")
    expect(page.locator("[data-fact=fetched]")).to_contain_text("1,000 bytes: 11 rows")

    for typed, said in (
        ("o/stories/default:train#Text", "The dataset o/stories has no column 'Text': choose one of id, text."),
        ("o/stories/default:train#id", "The column 'id' of o/stories does not hold text"),
        ("o/pairs", "Which column of o/pairs holds the text is not clear: add #column to the name, one of question"),
        ("o/missing", "The dataset o/missing is gated, private or missing, it says"),
        ("nonsense", "is not the name of a Hugging Face dataset: write hf:owner/name"),
    ):
        name.fill(typed)
        press(page, "Fetch")
        expect(fault).to_contain_text(said)
    name.fill("o/pairs")
    press(page, "Look it up")
    expect(page.get_by_role("button", name="Fetch", exact=True)).to_be_disabled()  # until a column is chosen
    page.locator("select[name=column]").select_option("answer")

    hub.hold = True
    press(page, "Fetch")
    page.wait_for_function("() => document.querySelector('[data-fact=fetched]').innerText.startsWith('0 bytes')")
    while not hub.held:
        page.wait_for_timeout(20)
    press(page, "Cancel")
    hub.hold = False
    hub.answer(hub.held[0])  # too late
    page.wait_for_timeout(200)
    expect(page.locator("[data-fact=fetched]")).to_contain_text("1,000 bytes: 11 rows")
    press(page, "Fetch")
    expect(page.locator("[data-fact=fetched]")).to_contain_text("40 rows, column answer of o/pairs")

    press(page, "Train")
    wait_for_step(page, 5)
    stop(page)
    expect_harmless(page)
    assert not any("authorization" in headers or "secret" in str(headers) for headers in elsewhere)
    page.reload()
    choose_text(page, "hub")
    assert page.locator("input[name=token]").input_value() == "secret"  # this browser remembers it
    server.close()
