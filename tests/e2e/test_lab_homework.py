"""Homework: a link sets a task, a pupil's proof of the run is the answer, and a folder of answers is graded."""

import json

from lab_helpers import opened
from page_access import AXE, grave_faults
from page_helpers import press
from playwright.sync_api import expect


def test_a_task_is_set_answered_and_graded(open_page, tmp_path):
    page = opened(open_page, "homework")
    page.get_by_text("Set a task").click()
    page.get_by_label("title", exact=True).fill("Week 3")
    page.get_by_label("steps", exact=True).fill("40")
    press(page, "Make the link")
    page.get_by_role("link", name="Try it").click()
    task = page.url
    expect(page.get_by_role("heading", name="Week 3")).to_be_visible()

    page.get_by_role("link", name="Open Train with its settings").click()
    press(page, "Train")
    page.wait_for_selector("[data-kept='40']")
    with page.expect_download() as coming:
        press(page, "Save a proof")
    coming.value.save_as(tmp_path / "ann.json")

    stated = json.loads((tmp_path / "ann.json").read_text())
    answers = {
        "ben.json": json.dumps({**stated, "losses": [loss * 0.99 for loss in stated["losses"]]}),
        "cid.json": json.dumps(stated)[:-200],
        "dan.png": "no capsule at all",
    }
    for name, content in answers.items():
        (tmp_path / name).write_text(content)
    page.goto(task)
    page.get_by_label("Capsules to grade").set_input_files(sorted(tmp_path.iterdir()))
    expect(page.get_by_text("4 of 4 graded against “Week 3”")).to_be_visible()
    grades = page.get_by_role("region", name="Grades")
    for name, verdict, words in (
        ("ann.json", "equal", "All 40 losses match the capsule exactly, and so do the weights at the end"),
        ("ben.json", "does not agree", "At step"),
        ("cid.json", "not graded", "The capsule is broken JSON"),
        ("dan.png", "not graded", "The capsule is broken JSON"),
    ):
        row = grades.get_by_role("row").filter(has_text=name)
        expect(row).to_contain_text(verdict)
        expect(row).to_contain_text(words)
    page.evaluate(AXE.read_text())
    assert not list(grave_faults(page, "a lab"))
    with page.expect_download() as coming:
        press(page, "Save as CSV")
    lines = coming.value.path().read_text().splitlines()
    assert lines[0].startswith("file,verdict,loss,steps") and any(
        line.startswith("ben.json,does not agree,") for line in lines
    )

    page.evaluate("location.hash = '#homework=H4sI'")
    expect(page.get_by_role("alert")).to_contain_text("The link is not whole, or holds no task")
