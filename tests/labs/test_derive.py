"""Labs to derive: solutions pass, near misses fail and say where, and what is solved is what trains."""

import json
import subprocess
import sys

import pytest

from tinygpt.labs.derive.check import LABS, Derivation, DerivedRun

NAMES = [lab.name for lab in LABS]
TEXT = (b"the quick brown fox jumps over the lazy dog. " * 60).hex()
STARTED = (AssertionError, AttributeError, NameError, TypeError, ValueError)


def rows_of(lab, source):
    check, rows = Derivation(json.dumps({"lab": lab.name, "source": source})), []
    while (row := json.loads(check.step())) is not None:
        rows.append(row)
    return rows


@pytest.mark.parametrize("lab", LABS, ids=NAMES)
def test_the_solution_agrees_with_finite_differences_and_the_specification(lab):
    rows = rows_of(lab, lab.solution)
    assert all(row["right"] for row in rows), rows
    whats = {row["what"] for row in rows}
    assert whats == ({"the specification", "finite differences"} if lab.value else {"the specification"})
    assert len({str(row["sizes"]) for row in rows}) == len(lab.cases) >= 3
    assert lab.degree in ("easy", "medium", "hard")
    assert lab.solution.count("\n") <= 12 and len(lab.hints) >= 2 and len(lab.near) >= 3


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(
    "lab, before, after",
    [(lab, *near) for lab in LABS for near in lab.near],
    ids=lambda one: getattr(one, "name", None),
)
def test_a_near_miss_fails_and_says_where(lab, before, after):
    assert lab.solution.count(before) >= 1
    try:
        rows = rows_of(lab, lab.solution.replace(before, after, 1))
    except (ValueError, TypeError):
        return  # a shape that does not fit is told by name
    wrong = next(row for row in rows if not row["right"])
    off = wrong["heat"][wrong["row"]][wrong["column"]]
    assert off is None or off > 100 * wrong["bound"], wrong
    assert off == wrong["worst"]


@pytest.mark.parametrize("lab", LABS, ids=NAMES)
def test_the_starter_is_no_solution(lab):
    with pytest.raises(STARTED):
        assert all(row["right"] for row in rows_of(lab, lab.starter))


@pytest.mark.parametrize("lab", LABS, ids=NAMES)
def test_what_is_solved_is_what_trains(lab):
    def losses(source):
        run = DerivedRun(json.dumps({"lab": lab.name, "source": source, "steps": 3}), TEXT)
        found = [json.loads(run.step()) for _ in range(4)]
        assert found[3] is None and run.calls > 0
        return [row[1] for row in found[:3]]

    ours = losses("")
    assert losses(lab.solution) == pytest.approx(ours, abs=1e-7)
    before, after = lab.near[0]
    try:
        near = losses(lab.solution.replace(before, after, 1))
    except ValueError:
        return
    assert near != pytest.approx(ours, abs=1e-7)


def test_what_is_returned_amiss_is_said_in_a_sentence():
    lab = next(lab for lab in LABS if lab.name == "rmsnorm")
    for source, sentence in (
        ("def backward(dy, x, gain, rstd): return dy", "it returns 1 values; 2 are asked for: dx, dgain"),
        ("def backward(dy, x, gain, rstd): return dy, dy", "dgain has the shape"),
        ("x = 1", "name 'backward' isn't defined"),
    ):
        with pytest.raises((ValueError, NameError), match=sentence.replace("'", ".")):
            rows_of(lab, source)


PORTABLE = """
import json
from tinygpt.labs.derive.check import LABS, DerivedRun, Derivation
for lab in LABS:
    for source in (lab.solution, lab.solution.replace(lab.near[1][0], lab.near[1][1], 1)):
        check, right, wrong = Derivation(json.dumps({"lab": lab.name, "source": source})), 0, 0
        try:
            while True:
                row = json.loads(check.step())
                if row is None:
                    break
                right, wrong = right + row["right"], wrong + (not row["right"])
            print(lab.name, right if not wrong else "fails")
        except (ValueError, TypeError):
            print(lab.name, "fails")
run = DerivedRun(json.dumps({"lab": "gelu", "source": "", "steps": 2}), (b"the quick brown fox " * 60).hex())
print(["%.6f" % json.loads(run.step())[1] for _ in range(2)])
"""


def test_labs_say_the_same_under_micropython(tmp_path):
    from test_room import under_micropython

    numpys = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PORTABLE], capture_output=True, text=True, check=True
    ).stdout
    assert numpys.count("fails") == len(LABS)
    assert under_micropython(PORTABLE, tmp_path) == numpys
