"""Homework: a link sets a task, a pupil's proof of the run is the answer, and a folder of answers is graded."""

import json
import re

from lab_helpers import opened
from page_access import AXE, grave_faults
from page_helpers import press
from playwright.sync_api import expect


def test_a_task_is_set_answered_and_graded(open_page, tmp_path):
    page = opened(open_page, "homework")
    page.get_by_label("title", exact=True).fill("Week 3")
    page.get_by_label("steps", exact=True).fill("40")
    press(page, "Make the link")
    (tmp_path / "notes.txt").write_text("What I saw.")
    page.get_by_label("Capsules to grade").set_input_files(tmp_path / "notes.txt")
    expect(page.get_by_text("1 of 1 graded against “Week 3”")).to_be_visible()
    (tmp_path / "notes.txt").unlink()
    page.get_by_role("link", name="Try it").click()
    expect(page.get_by_role("heading", name="Week 3")).to_be_visible()

    page.get_by_label("Your number").fill("7")
    with page.context.expect_page() as opening:
        page.get_by_role("link", name="Open Train with its settings").click()
    train = opening.value
    press(train, "Train")
    train.wait_for_selector("[data-kept='40']")
    with train.expect_download() as coming:
        press(train, "Save a proof")
    coming.value.save_as(tmp_path / "ann.json")
    train.close()

    stated = json.loads((tmp_path / "ann.json").read_text())
    assert stated["config"]["train"]["seed"] == 7 and stated["steps"] == 40
    losses = stated["losses"]
    answers = {
        "abe.json": (tmp_path / "ann.json").read_text(),
        "eve.json": json.dumps({**stated, "losses": losses[:30] + [loss - 0.3 for loss in losses[30:]]}),
        "ben.json": json.dumps({**stated, "losses": [loss * 0.99 for loss in stated["losses"]]}),
        "cid.json": json.dumps(stated)[:-200],
        "dan.png": "no capsule at all",
    }
    for name, content in answers.items():
        (tmp_path / name).write_text(content)
    page.get_by_label("steps of each to replay").fill("20")
    page.get_by_label("Capsules to grade").set_input_files(sorted(tmp_path.iterdir()))
    graded = page.get_by_text("6 of 6 graded against “Week 3”")
    expect(graded).to_be_visible()
    grades = page.get_by_role("region", name="Grades")

    def row_of(name):
        return grades.get_by_role("row").filter(has=page.get_by_role("rowheader", name=re.compile(f"^{name}")))

    for name in ("ann.json", "eve.json"):  # a false ending is not seen in the first steps, and nothing is called proved
        expect(row_of(name)).to_contain_text("equal for the first 20 of 40 steps")
        expect(row_of(name)).to_contain_text("claimed")
    expect(grades.locator("[data-proved]")).to_have_count(0)
    press(page, "Replay all steps")
    expect(graded).to_be_visible()
    expect(row_of("abe.json")).to_contain_text("the same file as ann.json")
    for name, verdict, words in (
        ("ann.json", "equal", "All 40 losses match the capsule exactly, and so do the weights at the end"),
        ("ben.json", "does not agree", "At step 1 the losses differ for the first time"),
        ("cid.json", "not graded", "The capsule is broken JSON"),
        ("dan.png", "not graded", "This file is no capsule."),
        ("eve.json", "does not agree", "At step 31 the losses differ for the first time"),
    ):
        row = row_of(name)
        expect(row).to_contain_text(verdict)
        expect(row).to_contain_text(words)
    expect(grades.locator("[data-proved]")).to_have_count(2)
    page.evaluate(AXE.read_text())
    assert not list(grave_faults(page, "a lab"))
    with page.expect_download() as coming:
        press(page, "Save as CSV")
    lines = coming.value.path().read_text().splitlines()
    assert lines[0].startswith("file,verdict,loss at the end,claimed,steps") and any(
        line.startswith("ben.json,does not agree,") for line in lines
    )

    page.evaluate("location.hash = '#homework=H4sI'")
    expect(page.get_by_role("alert")).to_contain_text("The link is not whole, or holds no task")
