"""Where the tests' time goes: a table by folder and by test, and a warning where a folder exceeds its budget.

    python -m pytest -n auto --times=build/test-times.md tests

A budget is the time of a folder's tests, summed over all workers, on two quiet cores. A busy machine exceeds it, so
nothing fails because of it: it shows the author of a slow test what it costs.
"""

import tomllib
from collections import Counter
from pathlib import Path

TESTS = Path(__file__).parent
BUDGETS: dict[str, int] = tomllib.loads((TESTS / "budgets.toml").read_text(encoding="utf-8"))["seconds"]
LISTED = 40  # tests in the table


def pytest_addoption(parser):
    parser.addoption("--times", help="write a table of durations to this file, and check each folder's budget")


def pytest_terminal_summary(terminalreporter, config):
    file = config.getoption("--times")
    if not file:
        return
    by_test = Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            if hasattr(report, "duration") and hasattr(report, "nodeid"):
                by_test[report.nodeid.removeprefix("tests/").split("@")[0]] += report.duration
    by_folder, counts = Counter(), Counter()
    for test, seconds in by_test.items():
        by_folder[folder_of(test)] += seconds
        counts[folder_of(test)] += 1
    Path(file).parent.mkdir(parents=True, exist_ok=True)
    Path(file).write_text(table(by_test, by_folder, counts), encoding="utf-8")
    terminalreporter.section(f"time by folder ({file} has the tests)")
    for folder, seconds in by_folder.most_common():
        budget = BUDGETS.get(folder)
        late = "  WARNING: over budget" if budget is None or seconds > budget else ""
        terminalreporter.write_line(f"{seconds:6.0f} s of {budget or 0:4} s  {counts[folder]:5} tests  {folder}{late}")


def folder_of(test: str) -> str:
    """The folder of a test's id; tests beside the folders are those of `.`."""
    folder = test.split("::")[0].split("/")[0]
    return "." if folder.endswith(".py") else folder


def table(by_test: Counter[str], by_folder: Counter[str], counts: Counter[str]) -> str:
    lines = ["| folder | tests | seconds | budget |", "|---|---|---|---|"]
    lines += [f"| {name} | {counts[name]} | {s:.0f} | {BUDGETS.get(name, 0)} |" for name, s in by_folder.most_common()]
    lines += ["", "| test | seconds |", "|---|---|"]
    lines += [f"| {name} | {seconds:.1f} |" for name, seconds in by_test.most_common(LISTED)]
    return "\n".join(lines) + "\n"
