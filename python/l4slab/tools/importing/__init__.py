"""Files of other people as experiments: the formats, and how each is recognised."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from l4slab.base.errors import InputError, suggest
from l4slab.tools.importing import libreqos, settings, shell, shown, trace
from l4slab.tools.importing.draft import Draft

Reader = Callable[[str, Draft, str, Mapping[str, str]], None]


@dataclass(frozen=True)
class Format:
    """A format of text files. `read` takes the text, the draft, the rate of devices and the values of variables."""

    title: str
    fits: Callable[[str], bool]
    read: Reader


# In the order in which they are tried.
FORMATS = {
    "tc-json": Format("tc -j qdisc show", shown.is_json, shown.read_json),
    "sqm": Format("OpenWrt's /etc/config/sqm", settings.is_sqm, settings.read_sqm),
    "libreqos": Format("ShapedDevices.csv of LibreQoS", libreqos.is_shaped, libreqos.read_shaped),
    "autorate": Format("the configuration of cake-autorate", settings.is_autorate, settings.read_autorate),
    "tc-script": Format("a script with lines of tc", shell.is_tc, shell.read_tc),
    "tc": Format("tc -s qdisc show", shown.is_lines, shown.read_lines),
    "mahimahi": Format("a command line of mahimahi", shell.is_mahimahi, shell.read_mahimahi),
    "mininet": Format("a script of Mininet", shell.is_mininet, shell.read_mininet),
    "mm-link": Format(
        "a trace of mm-link", trace.is_opportunities, lambda text, draft, *_: trace.read_opportunities(text, draft)
    ),
    "pensieve": Format(
        "a trace of Pensieve", trace.is_pensieve, lambda text, draft, *_: trace.read_pensieve(text, draft)
    ),
}
_CAPTURES = (b"\xd4\xc3\xb2\xa1", b"\xa1\xb2\xc3\xd4", b"\x4d\x3c\xb2\xa1", b"\xa1\xb2\x3c\x4d", b"\x0a\x0d\x0d\x0a")


def read(
    file: Path,
    *,
    kind: str | None = None,
    rate: str = "100Mbit",
    columns: tuple[str | None, str | None] = (None, None),
    given: Mapping[str, str] | None = None,
) -> Draft:
    """What a file has. `kind`: its format, where that is not to be guessed; `rate`: of devices whose rate no command
    says; `columns`: of time and rate in a CSV file; `given`: variables of a script. Raises InputError.
    """
    try:
        content = file.read_bytes()
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror or error})", file=file) from None
    draft = Draft(str(file))
    if kind is not None and kind not in (*FORMATS, "csv", "pcap"):
        raise InputError(f"= {kind!r} is no format; {suggest(kind, [*FORMATS, 'csv', 'pcap'])}", key="--format")
    if kind == "pcap" or (kind is None and content.startswith(_CAPTURES)):
        trace.read_capture(content, draft)
        return draft
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(f"is neither text nor a capture; {_formats()}", file=file) from None
    if not text.strip():
        raise InputError(f"is empty; {_formats()}", file=file)
    found = FORMATS.get(kind or "") or next((one for one in FORMATS.values() if kind is None and one.fits(text)), None)
    if found is not None and columns == (None, None):
        draft.taken.append(f"read as {found.title}")
        found.read(text, draft, rate, given or {})
    elif kind == "csv" or columns != (None, None) or "," in text.splitlines()[0] or ";" in text.splitlines()[0]:
        trace.read_csv(text, draft, columns)
    else:
        raise InputError(f"is in no format that is known; {_formats()}", file=file)
    return draft


def _formats() -> str:
    return f"known are {', '.join(f'{name} ({one.title})' for name, one in FORMATS.items())}, CSV, pcap and flent"
