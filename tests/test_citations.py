"""Citations of RFCs in the code: one form, which the script lists."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "docs"))

import citations  # noqa: E402


def test_every_citation_has_the_form_that_is_listed() -> None:
    assert [line for path in citations.files() for line in citations.misspelt(path)] == []


def test_a_source_gives_document_section_item_and_difference() -> None:
    source = citations.ROOT / "crates/core/src/aqm/dualpi2.rs"
    found = {(one.document, one.section, one.item) for one in citations.citations(source)}
    assert {(9332, "", ""), (9332, "A.1", "update"), (9332, "4.2.2", "scheduler")} <= found
    differences = {one.what: (one.here, one.there) for one in citations.differences(source)}
    assert differences["native marking of L"] == ("step at 1 ms", "ramp from 0.8 to 1.2 ms")


@pytest.mark.parametrize(
    "wrong",
    ["RFC8985", "RFC-8985", "RFC 8985 Section 6.2", "RFC 8985\n/// Section 6.2", "RFC 9332 A.1", "RFC 9332, A"],
)
def test_another_form_is_refused(wrong: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(citations, "ROOT", tmp_path)
    (tmp_path / "x.rs").write_text(f"/// {wrong} says so.\n")
    assert citations.misspelt(tmp_path / "x.rs")
