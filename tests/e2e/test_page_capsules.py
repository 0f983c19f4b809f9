"""A proof of a run crosses between page and terminal: made in one, replayed in the other; a forged one is found out."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
from page_helpers import PATIENCE, OpenPage, check, choose_text, press, show, step
from playwright.sync_api import Page, expect

from tinygpt.core.capsule.compare import DRIFT_LIMIT
from tinygpt.core.capsule.content import LARGEST_FILE
from tinygpt.store import bundled as zoo

sys.path.insert(0, str(Path(__file__).parents[1] / "cli"))
from cli_helpers import CALM, TINY, succeed, tinygpt

pytestmark = pytest.mark.xdist_group("page-kept")

HOSTILE = "<img src=x onerror=alert>"
POEM = "Full fathom five thy father lies; of his bones are coral made. " * 40


def share(page: Page, folder: Path) -> Path:
    with page.expect_download() as download:
        press(page, "Save a proof")
    file = folder / download.value.suggested_filename
    download.value.save_as(file)
    return file


def replay(page: Page, capsule: Path, steps: int, begin: str = "its start values") -> None:
    page.get_by_label("Open a capsule").set_input_files(capsule)
    page.locator("select[name=from]").select_option(begin)
    page.locator("input[name=replayed]").fill(str(steps))
    page.locator("input[name=replayed]").blur()
    press(page, "Replay")


def test_a_run_is_proved_in_the_page_and_in_the_terminal(open_page: OpenPage, tmp_path: Path) -> None:
    page = open_page()
    poem = tmp_path / "poem.txt"
    poem.write_text(POEM)
    check(page.get_by_label("tiny", exact=True))
    choose_text(page, "own", POEM)
    page.locator("input[name=steps]").fill("60")
    press(page, "Train")
    page.wait_for_selector("[data-kept='60']")
    mine = share(page, tmp_path)

    there = json.loads(tinygpt("replay", mine, "--file", poem, "--engine", "native", "--json").stdout)
    assert there["verdict"] in ("equal", "unproved") and there["compared"] == 60
    assert max(abs(a - b) / b for a, b in there["losses"]) < DRIFT_LIMIT

    # The text is kept here, and the model in hand stays.
    show(page, "verify")
    replay(page, mine, 60)
    expect(page.get_by_role("status")).to_contain_text(
        "Exactly equal. All 60 losses match the capsule exactly, and so do the weights at the end."
    )
    assert step(page) == 60

    # Any stretch of it: behind a step that is kept here, or a file.
    kept = page.locator("select[name=from] option").filter(has_text="kept of").first
    first = int(kept.inner_text().split()[1].rstrip(","))
    replay(page, mine, 60, kept.inner_text())
    expect(page.get_by_role("status")).to_contain_text(
        f"Exactly equal. All {60 - first} losses match the capsule exactly, and so do the weights at the end."
    )

    forged = tmp_path / "forged.json"
    stated = json.loads(mine.read_text())
    forged.write_text(json.dumps({**stated, "losses": [loss * 0.99 for loss in stated["losses"]]}))
    replay(page, forged, 5)
    expect(page.get_by_role("status")).to_contain_text("They do not agree. At step")
    (loose := tmp_path / "loose.json").write_text(
        json.dumps({**stated, "device": "x", "losses": [loss * 1.0009 for loss in stated["losses"]]})
    )
    replay(page, loose, 5)
    expect(page.get_by_role("status")).to_contain_text("Not proved on this engine. The losses of 5 steps agree within")
    whole = json.dumps(stated)
    for content, said in (
        (json.dumps({**stated, "config": {"model": {}, "train": {}}}), "config.model does not state its 'layers'"),
        (whole[:-200], "The capsule is broken JSON"),
        ("[]", "This file is no capsule."),
        (whole + " " * LARGEST_FILE, "is no capsule: it has more than a megabyte"),
        ("\0\1\2", "This file is no capsule."),
    ):
        (strange := tmp_path / f"{len(content)}.json").write_text(content)
        page.get_by_label("Open a capsule").set_input_files(strange)
        expect(page.get_by_role("alert").last).to_contain_text(said)
    hostile = {"title": HOSTILE, "device": HOSTILE, "text": {**stated["text"], "name": HOSTILE, "sha256": "0" * 64}}
    (strange := tmp_path / "strange.json").write_text(json.dumps({**stated, **hostile}))
    page.get_by_label("Open a capsule").set_input_files(strange)
    expect(page.locator("[data-view=verify] dl")).to_contain_text(
        re.compile(f"{HOSTILE}.*{HOSTILE}.*{HOSTILE}", re.DOTALL)
    )
    assert page.locator("img").count() == 0

    text = tmp_path / "other.txt"
    text.write_text(POEM[::-1])
    run = tmp_path / "run"
    length = ["--steps", "30", "--keep-every", "20"]
    succeed("train", *TINY, *CALM, *length, "--file", text, "--engine", "native", "--out", run, "-q")
    theirs = run / "capsule.json"
    succeed("capsule", run)
    page.get_by_label("Open a capsule").set_input_files(theirs)
    choose = page.get_by_label("Choose the text it learnt from: other.txt")
    expect(page.get_by_role("button", name="Replay", exact=True)).to_be_disabled()
    choose.set_input_files(poem)
    press(page, "Replay")
    expect(page.get_by_role("alert").last).to_contain_text("This is another text than the run learnt from")
    choose.set_input_files(text)
    press(page, "Replay")
    agreed = page.locator("[data-verdict=equal], [data-verdict=unproved]")
    expect(agreed).to_contain_text("30")
    page.locator("select[name=from]").select_option("a model file of the run")
    expect(page.get_by_role("button", name="Replay", exact=True)).to_be_disabled()
    page.get_by_label("A model file of the run", exact=True).set_input_files(
        run / "checkpoints" / "step-000020.tinygpt"
    )
    press(page, "Replay")
    expect(agreed).to_contain_text("10")
    page.get_by_label("A model file of the run", exact=True).set_input_files(zoo.named()["shakespeare-small"])
    press(page, "Replay")
    expect(page.get_by_role("alert").last).to_contain_text("is another model than the capsule's")
    assert tinygpt("replay", theirs, "--file", text, "--threads", "1").exit_code == 0


@pytest.mark.slow
def test_a_run_of_the_terminal_is_proved_on_webgpu(open_webgpu_page: OpenPage, tmp_path: Path) -> None:
    text, run = tmp_path / "poem.txt", tmp_path / "run"
    text.write_text(POEM)
    odd = ["--recipe", "classic", "--layers", "1", "--d-model", "10", "--heads", "2", "--ctx", "9", "--batch", "2"]
    succeed("train", *odd, *CALM, "--steps", "25", "--file", text, "--engine", "native", "--out", run, "-q")
    succeed("capsule", run)
    page = open_webgpu_page()
    show(page, "verify")
    page.get_by_label("Open a capsule").set_input_files(run / "capsule.json")
    page.get_by_label("Choose the text it learnt from: poem.txt").set_input_files(text)
    check(page.locator("[data-view=verify]").get_by_label("WebGPU"))
    press(page, "Replay")
    expect(page.locator("[data-verdict=unproved]")).to_contain_text(
        re.compile(
            r"Not proved on this engine. The losses of 25 steps agree within 0.1 % .* The weights at the end differ. "
            r"This is WebGPU, software adapter: .*, and the capsule says that native"
        ),
        timeout=PATIENCE,
    )
