"""Stop is heard at once, whatever is under way and however long it takes."""

from __future__ import annotations

import pytest
from page_helpers import OpenPage, check, press, stat

from lab.page import shown_number
from lab.stops import STOPS, WATCH, train_and_stop
from tinygpt.core.presets import DEFAULT_RECIPE, preset

pytestmark = pytest.mark.xdist_group("page")
SLOW = preset("large", DEFAULT_RECIPE).replace(batch=24)  # step, validation and sample take tenths of a second each


@pytest.mark.slow  # it is about time, which a busy machine has none of
@pytest.mark.parametrize(
    ("isolated", "amid"),
    [(True, ["steps", "validation", "sample"]), (False, ["steps"])],
    ids=["threads", "one thread"],
)
def test_a_stop_waits_for_no_step_no_validation_and_no_sample(
    open_page: OpenPage, isolated: bool, amid: list[str]
) -> None:
    page = open_page(isolated, prepare=lambda page: page.add_init_script(WATCH))
    check(page.get_by_label("large", exact=True))
    page.locator("input[name=batch]").fill(str(SLOW.train.batch))
    for stop in [next(stop for stop in STOPS if stop.amid == what) for what in amid]:
        took = train_and_stop(page, stop)
        step = 1000 * SLOW.train.batch * SLOW.model.ctx / shown_number(stat(page, "speed"))
        assert took < step, (stop.amid, took, step)
        assert stat(page, "validation") == "–" and page.locator("[data-sample]").count() == 0
    press(page, "Continue")
    page.wait_for_selector("[data-phase=training]")
