"""Many draws of the kernel `sample`, one after the other, for every engine."""

from typing import Any

import numpy as np
from cases import make_case, run_spec, sample_case

from tinygpt.core.config import SampleConfig
from tinygpt.core.ops.sample import NO_NUMBER, OVER, STOPPED, WRITTEN
from tinygpt.core.rng import sample_uniform
from tinygpt.core.run.sampler import nucleus

DRAWS = 60
NEAR = 1e-5  # of the whole: float32 sums may put a draw that falls so close to a boundary on its other side
SETTINGS: list[dict[str, Any]] = [
    {"temperature": 1.0},
    {"temperature": 0.7, "top_k": 12, "seed": 3},
    {"temperature": 1.0, "top_p": 0.6, "seed": 2**31 + 5},
    {"temperature": 1.3, "top_k": 40, "top_p": 0.9, "seed": 2**32 - 1, "first": 1_000_000},
]


def sampling(**given: Any) -> dict[str, Any]:
    return make_case("sample", sample_case(room=DRAWS, **given), dtype=np.float32)


def run_spec_often(case: dict[str, Any], times: int) -> dict[str, Any]:
    for _ in range(times):
        case = case | run_spec("sample", case)
    return {name: case[name] for name in ("written", "token", "position", "cursor")}


def near_a_boundary(logits: np.ndarray, settings: SampleConfig, first: int) -> list[bool]:
    """Of each draw, whether it falls within NEAR of where two bytes meet."""
    logits = np.sort(logits.astype(np.float64))[::-1][: settings.top_k or 256]
    weights = np.exp((logits - logits[0]) / settings.temperature)
    kept = weights[: nucleus(weights.tolist(), settings.top_p)]
    edges = np.cumsum(kept) / kept.sum()
    return [bool(np.abs(edges - sample_uniform(settings.seed, first + i)).min() < NEAR) for i in range(DRAWS)]


def check_draws(run: Any, given: dict[str, Any]) -> None:
    """`run(case, times)` gives the outputs of so many runs."""
    case = sampling(**given)
    wanted, got = run_spec_often(case, DRAWS), run(case, DRAWS)
    settings = SampleConfig(**{name: value for name, value in given.items() if name != "first"})
    near = near_a_boundary(case["logits"], settings, given.get("first", 0))
    assert sum(near) < 3
    same = got["written"] == wanted["written"]
    assert (same | near).all()
    assert len(set(wanted["written"].tolist())) > 3
    assert got["cursor"].tolist() == [DRAWS, 0] and got["position"] == wanted["position"]
    assert got["token"][0] == got["written"][-1]


def check_ties(run: Any) -> None:
    """Equal logits stand in the order of their bytes, +0 and -0 are equal."""
    case = sampling(temperature=0.0)
    case["logits"][:] = -1.0
    case["logits"][[200, 77, 90]] = 0.0, -0.0, 0.0
    assert run(case, 3)["written"][:3].tolist() == [77, 77, 77]
    case["choice"] = sampling(temperature=1.0, top_k=2)["choice"]
    assert set(run(case, DRAWS)["written"].tolist()) == {77, 90}


def check_stop(run: Any) -> None:
    """The byte that ends a text is the last of it; nothing changes any more."""
    free = run(sampling(temperature=1.0), DRAWS)["written"].tolist()
    stop = free[5]
    ended = run(sampling(temperature=1.0, stop=bytes([stop, 255])), DRAWS)
    count = free.index(stop) + 1
    assert ended["cursor"][WRITTEN] == count and ended["cursor"][OVER] == STOPPED
    assert ended["written"][:count].tolist() == free[:count] and ended["token"][0] == stop


def check_no_numbers(run: Any, bad: float, place: Any) -> None:
    case = sampling(temperature=0.0)
    case["logits"][place] = bad
    got = run(case, 2)
    assert got["cursor"].tolist() == [0, NO_NUMBER]
    for name in ("written", "token", "position"):
        assert got[name].tolist() == case[name].tolist()
