"""docs/live.md says what can be asked, and every bound."""

import re
from pathlib import Path

from l4slab.live import bounds

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "live.md").read_text("utf-8")


def test_every_request_is_described() -> None:
    types = (ROOT / "web" / "src" / "types.ts").read_text("utf-8")
    (requests,) = re.findall(r"export type Request =(.*?);\n\n", types, re.DOTALL)
    assert set(re.findall(r'do: "(\w+)"', requests)) == set(re.findall(r'^\| `\{"do": "(\w+)"', PAGE, re.MULTILINE))


def test_every_bound_is_said() -> None:
    said = dict(re.findall(r"^\| ([a-z][^|]*) \| ([\d][^|]*) \|$", PAGE, re.MULTILINE))
    mega, giga = 1 << 20, 1 << 30
    assert said == {
        "sessions at once": f"{bounds.SESSIONS}",
        "a request": f"{bounds.MESSAGE_BYTES // mega} MB; {bounds.WAITING} of them waiting",
        "an answer": f"{bounds.ANSWER_BYTES // mega} MB, {bounds.ANSWER_S:.0f} s",
        "memory of a session of `native`": f"{bounds.MEMORY_BYTES // giga} GB",
        "links, flows": f"{bounds.LINKS}, {bounds.FLOWS:,}".replace("10,000", "10 000"),
        "a rate": f"{bounds.RATE_BPS // 10**9} Gbit/s",
        "a whole run (`batch`), a step (`advance`)": f"{bounds.BATCH_S} s, {bounds.ADVANCE_S} s",
        "samples in an answer": f"{bounds.SAMPLES:,}".replace(",", " "),
    }
