"""Script time per frame of the page, and how soon instant mode answers, in Chromium without a GPU.

    python benches/page.py [--chromium PROGRAM] [--seconds S] [--moves N]

It opens the built page (`./dev.sh page`) as a file, so its engine is the core as WebAssembly.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

PAGE = Path(__file__).parents[1] / "python" / "l4slab" / "live" / "page" / "live.html"
FLOWS = (
    "flow.l4s.cc=prague&flow.l4s.rtt=10ms&flow.l4s.count={n}"
    "&flow.classic.cc=cubic&flow.classic.rtt=10ms&flow.classic.count={n}"
)
SETUPS = {
    "2 flows at 100 Mb/s": ("link.bottleneck.rate=100Mbit&link.bottleneck.qdisc=dualpi2&" + FLOWS.format(n=1), 60),
    "50 flows at 1 Gb/s": ("link.bottleneck.rate=1Gbit&link.bottleneck.qdisc=dualpi2&" + FLOWS.format(n=25), 20),
}
NEWEST = """() => {
  const { count, script_ms, achieved, answers_ms } = window.l4slabFrames;
  return { count, script_ms: [...script_ms.subarray(0, Math.min(count, script_ms.length))], achieved, answers_ms };
}"""

MOVE = """(by) => new Promise((done) => {
  const slider = document.querySelector("input[type=range][id$='-rate']");
  const before = window.l4slabFrames.answers_ms.length;
  const begun = performance.now();
  slider.value = String(Number(slider.value) + by);
  slider.dispatchEvent(new Event("input", { bubbles: true }));
  const look = () => {
    if (window.l4slabFrames.answers_ms.length > before) done(performance.now() - begun);
    else requestAnimationFrame(look);
  };
  look();
})"""


def main() -> None:
    """Prints a line per set-up."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--chromium", default=shutil.which("chromium"), help="the browser (default: of the PATH)")
    options.add_argument("--seconds", type=float, default=25, help="of each set-up, after 5 s of warming up")
    options.add_argument("--moves", type=int, default=20, help="of a slider in instant mode")
    chosen = options.parse_args()
    with sync_playwright() as tools:
        browser = tools.chromium.launch(executable_path=chosen.chromium, args=["--no-sandbox", "--disable-gpu"])
        for title, (address, wanted) in SETUPS.items():
            page = browser.new_page(viewport={"width": 1400, "height": 1000})
            page.goto(f"{PAGE.as_uri()}#{address}&view.speed=1")
            frames(page, title, wanted, chosen.seconds)
            page.close()
        page = browser.new_page(viewport={"width": 1400, "height": 1000})
        page.goto(f"{PAGE.as_uri()}#{SETUPS['2 flows at 100 Mb/s'][0]}&view.mode=instant")
        answers(page, chosen.moves)
        browser.close()


def frames(page: Page, title: str, wanted: int, seconds: float) -> None:
    """Frames of a run at real speed."""
    page.wait_for_function("window.l4slabFrames?.count > 10")
    page.wait_for_timeout(5000)
    before = page.evaluate(NEWEST)["count"]
    page.wait_for_timeout(seconds * 1000)
    told = page.evaluate(NEWEST)
    many = told["count"] - before
    ms = sorted(told["script_ms"][-many:] if many <= len(told["script_ms"]) else told["script_ms"])
    share = sum(one <= 1000 / wanted for one in ms) / len(ms)
    print(
        f"{title}: {many / seconds:.0f} frames/s drawn, script per frame {spread(ms)}; "
        f"{share:.1%} within the {1000 / wanted:.1f} ms of {wanted} frames/s; virtual time {told['achieved']:.2f}x"
    )


def answers(page: Page, moves: int) -> None:
    """Moves of the rate's slider, one after the other: from the event to the frame in which the curves are drawn."""
    page.wait_for_function("window.l4slabFrames?.answers_ms.length > 0")
    ms = []
    for move in range(moves):
        ms.append(page.evaluate(MOVE, 1 if move % 2 else -1))
        page.wait_for_timeout(300)
    ms.sort()
    share = sum(one <= 150 for one in ms) / len(ms)
    print(f"instant mode, 2 flows at 100 Mb/s for 20 s: answer {spread(ms)}; {share:.0%} within 150 ms")


def spread(ms: list[float]) -> str:
    """Median and tail of sorted times."""
    at = lambda part: ms[min(len(ms) - 1, int(part * len(ms)))]  # noqa: E731
    return f"median {statistics.median(ms):.1f} ms, 90 % {at(0.9):.1f}, 99 % {at(0.99):.1f}, longest {ms[-1]:.1f}"


if __name__ == "__main__":
    main()
