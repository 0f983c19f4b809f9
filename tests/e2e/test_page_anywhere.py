"""The built site on a host that sends no headers, in a folder of it: threads, offline, never of two versions."""

from __future__ import annotations

import gzip
import json
import shutil
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from page_helpers import PATIENCE, check, fact, let_write, press, stop, unfold, wait_for_step
from plain_host import PlainHost
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tinygpt.site.build import BUNDLED
from tinygpt.site.hosting import SERVICE_WORKER, write_service_worker

pytestmark = pytest.mark.xdist_group("page-kept")
PLACE = "some/where/"
TEXT = "corpora/shakespeare.txt"
KEPT = """async () => {
    const found = {};
    for (const name of await caches.keys())
      found[name] = (await (await caches.open(name)).keys()).map(({ url }) => url.split("/some/where/")[1]);
    return found;
}"""


@pytest.fixture
def folder(dist: Path, tmp_path: Path) -> Path:
    """A copy of the site that may be changed, without the larger models."""
    shutil.copytree(dist, tmp_path / PLACE, ignore=shutil.ignore_patterns("shakespeare-*.tinygpt", "moby*.tinygpt"))
    return tmp_path


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    """One person's browser. It asks nothing elsewhere, and its console tells of a network that is gone at most."""
    context = browser.new_context()
    context.set_default_timeout(PATIENCE)
    strays: list[str] = []
    complaints: list[str] = []
    context.on("request", lambda sent: strays.append(sent.url) if f"/{PLACE}" not in sent.url[:40] else None)
    context.on(
        "console", lambda said: complaints.append(f"{said.text} {said.location}") if said.type == "error" else None
    )
    context.on("weberror", lambda fault: complaints.append(str(fault.error)))
    yield context
    context.close()
    assert not [url for url in strays if not url.startswith("blob:")]
    assert not [text for text in complaints if "ERR_CONNECTION_" not in text and SERVICE_WORKER not in text]


def visit(context: BrowserContext, port: int) -> Page:
    page = context.new_page()
    page.goto(f"http://127.0.0.1:{port}/{PLACE}#train")
    page.wait_for_function(
        "() => crossOriginIsolated && document.querySelector('[data-phase]:not([data-phase=loading])')"
    )
    unfold(page)
    return page


def train(page: Page) -> None:
    check(page.get_by_label("tiny", exact=True))
    press(page, "Train")
    wait_for_step(page, 20)
    stop(page)


def changed(folder: Path) -> None:
    """Another build in the same place: other words, another text."""
    site = folder / PLACE
    page = site / "index.html"
    page.write_text(page.read_text().replace("<footer", "<footer data-build=second"))
    (site / "corpora" / "shakespeare.txt.gz").write_bytes(gzip.compress(b"another text"))
    script = (site / SERVICE_WORKER).read_text().partition("\n")[2]
    write_service_worker(site, script)


def wait_for_caches(page: Page, held: Callable[[dict[str, list[str]]], bool]) -> dict[str, list[str]]:
    for _ in range(PATIENCE // 100):
        if held(found := page.evaluate(KEPT)):
            return found
        page.wait_for_timeout(100)
    raise AssertionError(page.evaluate(KEPT))


def builds_in(found: dict[str, list[str]]) -> set[int]:
    """The sizes of the caches with a build each."""
    return {len(urls) for name, urls in found.items() if name != "tinygpt kept"}


def parts_of_build(folder: Path) -> tuple[int, int]:
    """How many files the service worker keeps without being asked: what trains, and what is read later."""
    script = (folder / PLACE / SERVICE_WORKER).read_text().partition("\n")[0]
    stated = json.loads(script.removeprefix("const BUILD = ").rstrip(";"))
    return len(stated["shell"]), len(stated["later"])


def test_threads_offline_and_one_version_at_a_time(folder: Path, context: BrowserContext) -> None:
    host = PlainHost(folder)
    loads: list[str] = []
    context.on("page", lambda page: page.on("domcontentloaded", lambda: loads.append(page.url)))
    page = visit(context, host.port)
    assert fact(page, "isolation") == "cross-origin isolated"
    assert len(loads) == 2  # the second is with the headers that the service worker adds
    policy = page.evaluate("async () => (await fetch('.')).headers.get('Content-Security-Policy')")
    assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy
    shell, later = parts_of_build(folder)
    first = wait_for_caches(
        page,
        lambda found: any(TEXT in url for url in found.get("tinygpt kept", [])) and builds_in(found) == {shell + later},
    )
    assert not any(url.startswith("models/") and url.endswith(".tinygpt") for url in first["tinygpt kept"])
    assert all(path.startswith(f"/{PLACE}") for path in host.asked)
    page.close()
    host.end()

    page = visit(context, host.port)  # which no longer answers
    train(page)
    assert let_write(page, "To be").startswith("To be")

    changed(folder)
    host = PlainHost(folder, host.port)
    other = visit(context, host.port)
    expect(other.locator("footer")).to_have_attribute("data-build", "second")  # at once
    (corpus,) = (url for url in first["tinygpt kept"] if TEXT in url)
    size = page.evaluate("async path => (await (await fetch(path)).arrayBuffer()).byteLength", corpus)
    assert size > 300_000  # packed; what the first is made of stays as it was
    both = wait_for_caches(other, lambda found: len(found) == 3 and min(builds_in(found)) >= shell)
    page.close(run_before_unload=False)
    other.close()
    host.end()

    page = visit(context, host.port)
    while page.locator("footer").get_attribute("data-build") != "second":  # until the browser lets go of the first
        page.close()
        page = visit(context, host.port)
    left = wait_for_caches(page, lambda found: len(found) == 2)
    assert set(left) < set(both) and not any(TEXT in url for url in left["tinygpt kept"])
    page.close()

    shutil.rmtree(folder / PLACE)  # another site in its place is left alone
    (folder / PLACE).mkdir()
    (folder / PLACE / "index.html").write_text("<link rel=icon href=.><title>another</title>")
    host = PlainHost(folder, host.port)
    page = context.new_page()
    page.goto(f"http://127.0.0.1:{host.port}/{PLACE}#train")
    wait_for_caches(page, lambda found: not found)
    page.reload()
    assert page.title() == "another" and not page.evaluate("crossOriginIsolated")
    host.end()


def test_all_models_are_fetched_ahead_for_a_room_without_a_network(
    dist: Path, tmp_path: Path, context: BrowserContext
) -> None:
    shutil.copytree(dist, tmp_path / PLACE)
    host = PlainHost(tmp_path)
    page = visit(context, host.port)
    page.evaluate("location.hash = 'class'")
    models = [model["name"] for model in json.loads((dist / "models" / "list.json").read_text())]
    page.get_by_role("button", name="Fetch all models").click()
    expect(page.locator("[data-ahead=all]")).to_have_text(
        f"All {len(models) + len(BUNDLED)} models and texts are kept in this browser."
    )
    page.close()
    host.end()
    page = visit(context, host.port)  # which no longer answers
    page.evaluate("location.hash = 'play'")
    page.get_by_role("button", name="Moby-Dick").click()
    expect(page.get_by_role("article", name="moby-dick.tinygpt").locator("[data-pace]")).to_contain_text("letters")


@pytest.mark.slow
def test_a_reload_takes_nothing_from_who_has_begun(folder: Path, context: BrowserContext) -> None:
    host = PlainHost(folder)
    context.add_init_script("setInterval(() => dispatchEvent(new KeyboardEvent('keydown')), 5)")
    page = context.new_page()
    page.goto(f"http://127.0.0.1:{host.port}/{PLACE}#train")
    page.wait_for_selector("[data-phase]:not([data-phase=loading])")
    page.evaluate("window.here = true")
    page.wait_for_function("() => navigator.serviceWorker.controller")
    page.wait_for_timeout(300)
    assert page.evaluate("window.here") and fact(page, "threads").startswith("1")
    page.reload()
    page.wait_for_selector("[data-phase]:not([data-phase=loading])")
    assert fact(page, "isolation") == "cross-origin isolated"
    host.end()


def test_the_site_can_be_installed(dist: Path) -> None:
    manifest = json.loads((dist / "manifest.webmanifest").read_text())
    assert manifest["start_url"] == manifest["scope"] == "./"
    for icon in manifest["icons"]:
        content = (dist / icon["src"]).read_bytes()
        if icon["type"] == "image/png":
            assert "{}x{}".format(*struct.unpack(">II", content[16:24])) == icon["sizes"]
