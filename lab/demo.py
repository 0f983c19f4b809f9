"""The README's moving picture: the page's first screen, dragged through its recorded minute.

python -m lab.demo docs/first-minute.gif    needs a built page (make site), Chromium and Playwright
"""

from __future__ import annotations

import io
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

from tinygpt.engines.runner import CHROMIUM_FLAGS, find_chromium
from tinygpt.serve.server import Site
from tinygpt.site.build import build

FRAMES = 24
SHOWN_MS, LAST_MS = 320, 2500
COLOURS = 32  # letters on paper need few

# The slider's place from 0 to 1: as if somebody dragged it.
DRAG = """(share) => {
  const slider = document.querySelector("input[type=range]");
  const set = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value").set;
  set.call(slider, Number(slider.min) + share * (Number(slider.max) - Number(slider.min)));
  slider.dispatchEvent(new Event("input", { bubbles: true }));
}"""


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    frames: list[Image.Image] = []
    with Site(build()) as site, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=list(CHROMIUM_FLAGS))
        # Without motion it does not play by itself.
        page = browser.new_page(viewport={"width": 880, "height": 640}, reduced_motion="reduce")
        page.goto(site.url)
        page.locator("input[type=range]").first.wait_for()
        page.evaluate("document.fonts.ready")
        for number in range(FRAMES):
            page.evaluate(DRAG, number / (FRAMES - 1))
            page.wait_for_timeout(150)
            frames.append(Image.open(io.BytesIO(page.screenshot())).convert("RGB"))
        browser.close()
    palette = frames[-1].quantize(COLOURS)
    drawn = [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames]
    times = [SHOWN_MS] * (FRAMES - 1) + [LAST_MS]
    drawn[0].save(Path(sys.argv[1]), save_all=True, append_images=drawn[1:], duration=times, loop=0, optimize=True)


if __name__ == "__main__":
    main()
