"""The next byte: many draws, ties, stop bytes, logits that are no numbers."""

import functools
import math

import numpy as np
import pytest
from cases import make_case, run_spec
from harness_cpp import cpu_lanes, run_kernel
from kernel_tests import KernelTests

from tinygpt.core.config import SampleConfig
from tinygpt.core.engine.texts import choice_words
from tinygpt.core.ops.gpu import Device
from tinygpt.core.ops.sample import NO_NUMBER, OVER, STOPPED, WRITTEN
from tinygpt.core.rng import sample_uniform
from tinygpt.core.write.sampler import nucleus

DRAWS = 60
NEAR = 1e-5  # of the whole: float32 sums may put a draw that falls so close to a boundary on its other side


def sample_case(room=40, drawn=0, first=0, stop=b"", **settings):
    choice = choice_words(SampleConfig(**settings), first, stop)
    return {"room": room, "cursor": [drawn, 0], "choice": choice, "row": None}


def several(*texts, over=None, row=None):
    """As many texts at once, of which number `over` is over; or number `row` of them alone."""
    cursors = [[text["cursor"][0], int(r == over)] for r, text in enumerate(texts)]
    sizes = {"room": texts[0]["room"], "N": len(texts) if row is None else 1, "R": len(texts)}
    return {**sizes, "cursor": cursors, "choice": [text["choice"] for text in texts], "row": row}


class TestSample(KernelTests):
    kernel = "sample"
    cases = [
        sample_case(temperature=0.0),
        sample_case(temperature=0.0, top_k=3, top_p=0.1, seed=5, first=3),
        sample_case(room=1, drawn=7, first=90, temperature=1.0, seed=2**32 - 1),
        sample_case(room=5, drawn=12, temperature=0.3, top_k=1),
        sample_case(temperature=2.0, top_k=9, top_p=0.5, seed=2**31),
        sample_case(temperature=1.5, top_p=0.0, first=4),
        sample_case(temperature=1e-3, top_k=256, stop=bytes(range(0, 256, 2))),
        sample_case(temperature=100.0, stop=bytes(range(256))),
    ]
    cases += [several(cases[0], cases[4], cases[5], over=1), several(cases[4], cases[6], cases[0], row=1)]
    # many are equal
    fills = {"logits": lambda normal, dims, random: np.round(2 * normal) / 2 + 0.25 * (np.arange(256) % 3)}


def sampling(**given):
    return make_case("sample", sample_case(room=DRAWS, **given), dtype=np.float32)


def on_spec(case, times):
    for _ in range(times):
        case = case | run_spec("sample", case)
    return {name: case[name] for name in ("written", "token", "position", "cursor")}


def flat(run, case, times):
    """What a text's runs left, each output as a list."""
    return {name: np.ravel(output) for name, output in run(case, times=times).items()}


def in_cpp(lanes, case, times):
    return run_kernel("sample", case, lanes, threads=2, times=times)


@pytest.fixture(params=["spec", "wgsl", *[f"cpp-{lanes}" for lanes in cpu_lanes()]])
def run(request):
    """Gives the outputs of a case after so many runs, one after the other."""
    if request.param == "wgsl":
        return functools.partial(request.getfixturevalue("wgsl").run_kernel, "sample", device=Device())
    return on_spec if request.param == "spec" else functools.partial(in_cpp, int(request.param[4:]))


def near_a_boundary(logits, settings, first):
    """Of each draw, whether it falls within NEAR of where two bytes meet."""
    logits = np.sort(logits.astype(np.float64))[::-1][: settings.top_k or 256]
    weights = np.exp((logits - logits[0]) / settings.temperature)
    kept = weights[: nucleus(weights.tolist(), settings.top_p)]
    edges = np.cumsum(kept) / kept.sum()
    return [bool(np.abs(edges - sample_uniform(settings.seed, first + i)).min() < NEAR) for i in range(DRAWS)]


@pytest.mark.parametrize(
    "given",
    [
        {"temperature": 1.0},
        {"temperature": 0.7, "top_k": 12, "seed": 3},
        {"temperature": 1.0, "top_p": 0.6, "seed": 2**31 + 5},
        {"temperature": 1.3, "top_k": 40, "top_p": 0.9, "seed": 2**32 - 1, "first": 1_000_000},
    ],
    ids=str,
)
def test_draws_are_the_specs(run, given):
    case = sampling(**given)
    wanted, got = flat(on_spec, case, DRAWS), flat(run, case, DRAWS)
    settings = SampleConfig(**{name: value for name, value in given.items() if name != "first"})
    near = near_a_boundary(case["logits"][0], settings, given.get("first", 0))
    assert sum(near) < 3
    same = got["written"] == wanted["written"]
    assert (same | near).all()
    assert len(set(wanted["written"].tolist())) > 3
    assert got["cursor"].tolist() == [DRAWS, 0] and got["position"] == wanted["position"]
    assert got["token"][0] == got["written"][-1]


def test_ties_go_to_the_lower_byte(run):
    """Equal logits stand in the order of their bytes, +0 and -0 are equal."""
    case = sampling(temperature=0.0)
    case["logits"][:] = -1.0
    case["logits"][0, [200, 77, 90]] = 0.0, -0.0, 0.0
    assert flat(run, case, 3)["written"][:3].tolist() == [77, 77, 77]
    case["choice"] = sampling(temperature=1.0, top_k=2)["choice"]
    assert set(flat(run, case, DRAWS)["written"].tolist()) == {77, 90}


def test_a_stop_byte_ends_a_text_for_good(run):
    """It is the last of the text; nothing changes any more."""
    free = flat(run, sampling(temperature=1.0), DRAWS)["written"].tolist()
    stop = free[5]
    ended = flat(run, sampling(temperature=1.0, stop=bytes([stop, 255])), DRAWS)
    count = free.index(stop) + 1
    assert ended["cursor"][WRITTEN] == count and ended["cursor"][OVER] == STOPPED
    assert ended["written"][:count].tolist() == free[:count] and ended["token"][0] == stop


@pytest.mark.parametrize("bad, place", [(math.nan, 0), (math.inf, 255), (-math.inf, 100), (math.nan, slice(None))])
def test_logits_that_are_no_numbers_are_told(run, bad, place):
    case = sampling(temperature=0.0)
    case["logits"][0, place] = bad
    got = flat(run, case, 2)
    assert got["cursor"].tolist() == [0, NO_NUMBER]
    for name in ("written", "token", "position"):
        assert got[name].tolist() == case[name].ravel().tolist()
