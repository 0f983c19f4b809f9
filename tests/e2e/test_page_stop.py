"""Stop is heard at once, whatever is under way and however long it takes."""

from __future__ import annotations

import pytest
from page_helpers import OpenPage, press, stat

from tinygpt.bench.stops import STOPS, WATCH, train_and_stop

pytestmark = pytest.mark.xdist_group("page")
WHOLE_STEP = 1000  # ms: one of huge, its validation and its sample take longer even where two cores have nothing else


@pytest.mark.parametrize(
    ("isolated", "amid"), [(True, ["steps", "validation", "sample"]), (False, ["steps"])], ids=["threads", "one thread"]
)
def test_a_stop_waits_for_no_step_no_validation_and_no_sample(
    open_page: OpenPage, isolated: bool, amid: list[str]
) -> None:
    page = open_page(isolated, prepare=lambda page: page.add_init_script(WATCH))
    page.get_by_label("huge", exact=True).check()
    for stop in [next(stop for stop in STOPS if stop.amid == what) for what in amid]:
        assert train_and_stop(page, stop) < WHOLE_STEP, stop.amid
        assert stat(page, "validation") == "–" and page.locator("article pre").count() == 0  # what was begun is dropped
    press(page, "Continue")
    page.wait_for_selector("[data-phase=training]")
