"""What reviewers and archives read: ARTIFACT.md from the studies, .zenodo.json and codemeta.json from CITATION.cff.

.venv/bin/python docs/artifact.py            # prints ARTIFACT.md; ./dev.sh generate writes all three
"""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

from l4slab import experimentfile
from l4slab.base.packaged import studies, study
from l4slab.base.values import Keys
from l4slab.results.claims import Claim
from l4slab.results.figures import Figure

ROOT = Path(__file__).resolve().parents[1]
_KINDS = {"disputed": "disputed statement", "found": "own finding"}
_START = """# Artifact

`./dev.sh generate` writes this page from the packaged studies. README has the installation, which needs
Python, Rust and a C compiler.

## The first ten minutes

```sh
./dev.sh reproduce fast-lane                 # builds (some minutes), runs a study (seconds), checks its statements
. .venv/bin/activate
l4slab doctor                                # what this machine can run
l4slab report results/fast-lane --open       # the report: each statement with its evidence, each run
l4slab verify results/fast-lane --all        # computes every run again and compares all numbers of the report
```

Exit status 0 of `reproduce` means that your machine got the recorded verdict for every statement. Exit status 0 of
`verify` means that every number is as computed. The simulator is deterministic: the same version gives the same tables,
byte for byte, as `digests.json` in the results folder shows ([docs/results.md](docs/results.md#digests)).

## Studies

Minutes are of one processor. The figures are in the report.

| study | command | minutes | claims | figures |
|---|---|---|---|---|
"""
_CLAIMS = """
## Claims

Where nothing is recorded, a claim holds, and a disputed statement is refuted.
"""


def markdown() -> str:
    """ARTIFACT.md."""
    summary = json.loads((ROOT / "docs" / "studies.json").read_text("utf-8"))
    rows, sections = [], []
    for name in studies():
        files = [experimentfile.load(file) for file in study(name)]
        title = next(file.title for file in files if file.is_study)
        figures = [figure.id for file in files for figure in file.tables(Figure)]
        claims = [claim for file in files for claim in file.tables(Claim)]
        minutes = max(round(summary[name]["processor_s"] / 60, 1), 0.1)
        shown = ", ".join(f"`{one}`" for one in figures) or "one per experiment"
        rows.append(f"| [{title}](#{name}) | `l4slab reproduce {name}` | {minutes:g} | {len(claims)} | {shown} |\n")
        sections.append(f"\n### {name}\n\n| claim | kind | source | recorded |\n|---|---|---|---|\n")
        sections += [_row(claim) for claim in claims]
    return "".join([_START, *rows, _CLAIMS, *sections])


def _row(claim: Claim) -> str:
    cells = claim.says or claim.id, _KINDS.get(claim.listed, claim.listed), claim.source, claim.recorded or ""
    return f"| {' | '.join(' '.join(cell.split()).replace('|', '&#124;') for cell in cells)} |\n"


def version() -> str:
    """The version of the workspace."""
    found: str = tomllib.loads((ROOT / "Cargo.toml").read_text("utf-8"))["workspace"]["package"]["version"]
    return found


def citation() -> Keys:
    """The keys of CITATION.cff that archives want: text, or lists of text."""
    text = (ROOT / "CITATION.cff").read_text("utf-8")
    found: dict[str, Any] = dict(re.findall(r'(?m)^([\w-]+): "?(.+?)"?$', text))
    for key, lines in re.findall(r"(?m)^([\w-]+):\n((?:  - .+\n?)+)", text):
        found[key] = re.findall(r'  - (?:name: )?"?(.+?)"?(?:\n|$)', lines)
    return found


def zenodo() -> Keys:
    """.zenodo.json, the metadata of a deposit."""
    cited: Any = citation()
    return {
        "title": f"{cited['title']}: {cited['abstract'].partition(':')[0]}",
        "upload_type": "software",
        "version": version(),
        "description": cited["abstract"],
        "creators": [{"name": name} for name in cited["authors"]],
        "license": cited["license"][0],
        "keywords": cited["keywords"],
        "access_right": "open",
    }


def codemeta() -> Keys:
    """codemeta.json (CodeMeta 3.0)."""
    cited: Any = citation()
    return {
        "@context": "https://w3id.org/codemeta/3.0",
        "@type": "SoftwareSourceCode",
        "name": cited["title"],
        "version": version(),
        "description": cited["abstract"],
        "author": [{"@type": "Organization", "name": name} for name in cited["authors"]],
        "license": [f"https://spdx.org/licenses/{name}" for name in (*cited["license"], "GPL-2.0-only")],
        "keywords": cited["keywords"],
        "programmingLanguage": ["Rust", "Python", "TypeScript"],
        "operatingSystem": "Linux",
        "softwareRequirements": "Python 3.11 or newer",
        "developmentStatus": "active",
    }


def files() -> dict[str, str]:
    """Each file's text, by its name."""
    documents = {".zenodo.json": zenodo(), "codemeta.json": codemeta()}
    texts = {name: json.dumps(one, indent=1, ensure_ascii=False) + "\n" for name, one in documents.items()}
    return {"ARTIFACT.md": markdown(), **texts}


if __name__ == "__main__":
    print(markdown(), end="")
