"""Damaged storage: whatever happens to the files of a run, the page deletes none of them and opens what is whole."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from page_helpers import OpenPage, offer_of, press, show, step, stop, wait_for_step
from page_toy import TINY, go_on_from_there, go_on_with, hide, untrained, wait_until_kept
from playwright.sync_api import Page, expect

pytestmark = pytest.mark.xdist_group("page-kept")

# What is done to a file; anything else is done to none. The answer is the names and sizes of the folder's files.
FILES = """
async ([how, name]) => {
  let folder = await navigator.storage.getDirectory();
  for (const part of ["tinygpt", "runs"]) folder = await folder.getDirectoryHandle(part);
  for await (const run of folder.values()) folder = run;
  const put = async (bytes) => {
    const file = await (await folder.getFileHandle(name)).createWritable();
    await file.write(bytes);
    await file.close();
  };
  const read = async (name) => new Uint8Array(await (await (await folder.getFileHandle(name)).getFile()).arrayBuffer());
  if (how === "removed") await folder.removeEntry(name);
  if (how === "emptied") await put(new Uint8Array());
  if (how === "truncated") await put((await read(name)).slice(0, -20));
  if (how === "garbage") await put(Uint8Array.from({ length: 300 }, (_, i) => (i * 151 + 7) % 256));
  const found = {};
  for await (const name of folder.keys()) found[name] = (await read(name)).length;
  return found;
}
"""


def files(page: Page, how: str = "", name: str = "") -> dict[str, int]:
    found: dict[str, int] = page.evaluate(FILES, [how, name])
    return found


def kept_run(page: Page, folder: Path) -> None:
    go_on_with(page, untrained(folder / "toy.tinygpt", TINY.replace(steps=100_000)))
    wait_for_step(page, 10)
    for _ in range(2):  # both slots
        hide(page)
        wait_until_kept(page)
        wait_for_step(page, step(page) + 10)
    stop(page)
    wait_until_kept(page)


def reload(page: Page) -> None:
    page.reload()
    page.wait_for_selector("[data-phase=idle]")


def test_a_damaged_record_costs_no_run(open_page: OpenPage, tmp_path: Path) -> None:
    page = open_page()
    kept_run(page, tmp_path)
    before = files(page)
    assert {"meta.0.json", "meta.1.json", "events.jsonl"} <= before.keys()

    files(page, "garbage", "meta.0.json")
    reload(page)
    expect(offer_of(page)).to_contain_text("Continue toy.tinygpt, step ")
    assert files(page).keys() == before.keys()

    # Without any record of its title it is offered as damaged, and its model can be opened and saved.
    files(page, "garbage", "meta.1.json")
    reload(page)
    assert offer_of(page).count() == 0
    show(page, "models")
    expect(page.get_by_text("This run is damaged.")).to_be_visible()
    with page.expect_download() as download:
        press(page, "Save what is left")
    download.value.save_as(tmp_path / "left.zip")
    saved = zipfile.ZipFile(tmp_path / "left.zip").namelist()
    assert {name.split("files/")[1] for name in saved if "files/" in name} == files(page).keys() == before.keys()
    assert any("rescued-step" in name for name in saved)
    press(page, "Open its model")
    expect(page.get_by_text("It belongs to no run any more").locator("visible=true")).to_be_visible()
    assert step(page) > 10


@pytest.mark.slow
@pytest.mark.parametrize("how", ["truncated", "emptied", "garbage", "removed"])
def test_a_run_outlives_any_damage_to_one_of_its_files(how: str, open_page: OpenPage, tmp_path: Path) -> None:
    page = open_page()
    kept_run(page, tmp_path)
    names = sorted(files(page))
    for name in names:
        before = files(page)
        if before.get(name, 0) <= 20:  # a snapshot that was thinned out meanwhile, or a file that is damaged already
            continue
        files(page, how, name)
        reload(page)
        expect(offer_of(page)).to_contain_text("Continue toy.tinygpt, step ")
        left = files(page).keys()
        assert left >= before.keys() - ({name} if how == "removed" else set())
        go_on_from_there(page)
        page.wait_for_selector("[data-phase=training]")
        wait_for_step(page, step(page) + 10)
        stop(page)
        wait_until_kept(page)
