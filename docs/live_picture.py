"""Takes the picture of the page, docs/_static/live.png: `.venv/bin/python docs/live_picture.py`.

It needs the page (`./dev.sh page`) with the simulator in it, and Chromium.
"""

from __future__ import annotations

import io
import shutil
from pathlib import Path

from l4slab.live import page
from PIL import Image
from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parents[1]
SHOWN_S = 16.0  # of the run, when the picture is taken


def main() -> None:
    """Open the page as it begins, wait until the run is so far, and save what is to be seen."""
    file = page.built()
    if file is None:
        raise SystemExit("the page is not built; build it with: ./dev.sh page")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        opened = browser.new_page(viewport={"width": 1400, "height": 800}, color_scheme="light")
        opened.goto(file.as_uri())
        opened.wait_for_timeout(1000 * SHOWN_S)
        # 256 colours show it as well, in a third of the bytes.
        picture = Image.open(io.BytesIO(opened.screenshot())).convert("RGB").quantize(256, dither=Image.Dither.NONE)
        picture.save(ROOT / "docs" / "_static" / "live.png", optimize=True)
        browser.close()


if __name__ == "__main__":
    main()
