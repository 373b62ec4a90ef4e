"""Files of tc-testing: command lines of `tc`, the exit status that each must have, and what is there after it."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from string import Template
from typing import Any

from l4slab.base.errors import InputError
from l4slab.tools.kerneltests import Ended, Judged, KernelTest

SUFFIX = ".json"
_LIMIT_S = 120
_NAMES = {
    "TC": "tc",
    "IP": "ip",
    "ETHTOOL": "ethtool",
    "NS": "tcut",
    "DEV0": "v0p0",
    "DEV1": "v0p1",
    "DUMMY": "dummy1",
    "IFB": "ifbtdc0",
    "ETH": "eth0",
    "BATCH_FILE": "/tmp/batch.txt",  # noqa: S108
    "BATCH_DIR": "/tmp/batch",  # noqa: S108
}
# What the cases find: both ends of a wire, and devices without one.
_DEVICES = """\
mkdir -p $BATCH_DIR
ip link add $DEV1 type veth peer name $DEV0
ip link add $DUMMY type dummy
ip link add $IFB type ifb
for device in $DEV0 $DEV1 $DUMMY $IFB; do ip link set $device up; done
"""


def cases(file: Path) -> list[dict[str, Any]] | None:
    """The cases of a file; None where it is another JSON document. Raises InputError."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"it is no JSON ({error})", file=file) from None
    is_one = isinstance(found, list) and found and all(isinstance(one, dict) and "cmdUnderTest" in one for one in found)
    return found if is_one else None


def tests(file: Path, group: str) -> Iterator[KernelTest]:
    """A test for each case. Raises InputError."""
    for case in cases(file) or ():
        label = f"{case.get('id', '?')} {case.get('name', '')}".strip()
        try:
            yield KernelTest(group, label, _script(case), _LIMIT_S, _Judge(case), _lacking(case))
        except (TypeError, ValueError, KeyError) as error:
            raise InputError(f"case {label} cannot be read ({error!r})", file=file) from None


def _lacking(case: dict[str, Any]) -> str:
    """Why a case cannot be run here."""
    plugins = case.get("plugins", {}).get("requires", [])
    others = [name for name in ([plugins] if isinstance(plugins, str) else plugins) if name != "nsPlugin"]
    if case.get("skip") == "yes":
        return "the file skips it"
    if others:
        return f"needs {', '.join(others)}"
    text = json.dumps(case)
    return next((f"needs {what}" for what in ("$DEV2", "$EBPFDIR", "netdevsim") if what in text), "")


def _named(command: str) -> str:
    return Template(command).safe_substitute(_NAMES)


def _script(case: dict[str, Any]) -> str:
    """Each step writes its status to a file of its own."""
    lines = [_named(_DEVICES)]
    if depends := case.get("dependsOn"):
        lines.append(f"sh -c {shlex.quote(_named(depends))} >/dev/null 2>&1 || exit 4")
    for number, step in enumerate(case.get("setup", [])):
        command, *statuses = [step] if isinstance(step, str) else step
        good = " | ".join(str(int(status)) for status in statuses or [0])
        lines.append(
            f"sh -c {shlex.quote(_named(command))}\ncase $? in {good}) ;; *) echo {number} >$OUT/setup; exit 1;; esac"
        )
    lines.append(f"sh -c {shlex.quote(_named(case['cmdUnderTest']))}\necho $? >$OUT/exit")
    if verify := case.get("verifyCmd"):
        # Of a command that fails its error counts.
        lines.append(
            f"sh -c {shlex.quote(_named(verify))} >$OUT/verify 2>$OUT/error || test ! -s $OUT/error || "
            "cat $OUT/error >$OUT/verify"
        )
    return "\n".join([*lines, "exit 0", ""])


class _Judge:
    def __init__(self, case: dict[str, Any]):
        self.wanted = int(case["expExitCode"])
        self.json = case.get("matchJSON")
        self.pattern = re.compile(str(case.get("matchPattern", "")), re.DOTALL | re.MULTILINE)
        self.count = int(case.get("matchCount", 0))
        self.verifies = bool(case.get("verifyCmd"))

    def __call__(self, ended: Ended) -> Judged:
        files = ended.files
        if ended.status == 4:
            return Judged("skip", "what it depends on is not there")
        if "setup" in files:
            return Judged("fail", f"step {files['setup'].strip()} of its setup has another status than it should")
        if "exit" not in files:
            return Judged("fail", f"it ended with status {ended.status} before the command")
        if (status := int(files["exit"])) != self.wanted:
            return Judged("fail", f"the command has status {status}, expected {self.wanted}")
        if not self.verifies:
            return Judged("pass")
        said = files.get("verify", "")
        if self.json is not None:
            try:
                found = json.loads(said or "[]")
            except ValueError:
                return Judged("fail", "what verifies the command says no JSON")
            return Judged("pass") if _is_in(self.json, found) else Judged("fail", f"it is not in {said.strip()[:400]}")
        count = len(self.pattern.findall(said))
        if count == self.count:
            return Judged("pass")
        where = said.strip()[:400] or "no output"
        return Judged("fail", f"{self.pattern.pattern!r} is there {count} times, expected {self.count}, in: {where}")


def _is_in(wanted: Any, found: Any) -> bool:
    """Whether a document has all that is wanted; it may have more keys."""
    if isinstance(wanted, dict):
        return isinstance(found, dict) and all(key in found and _is_in(one, found[key]) for key, one in wanted.items())
    if isinstance(wanted, list):
        return (
            isinstance(found, list)
            and len(found) >= len(wanted)
            and all(_is_in(one, other) for one, other in zip(wanted, found, strict=False))
        )
    return bool(wanted == found)
