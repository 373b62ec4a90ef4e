"""Reading a report as a browser and its script would."""

from __future__ import annotations

import base64
import json
import re
import zlib
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

VOID = {"meta", "br", "link", "img", "input", "hr"}


class Page(HTMLParser):
    """What a browser would see: elements, ids, and text outside scripts and styles."""

    def __init__(self, text: str):
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text = ""
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append((dict(attrs), ""))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            attributes, text = self.scripts[-1]
            self.scripts[-1] = attributes, text + data
        if not {"script", "style"} & set(self.open):
            self.text += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]

    @property
    def ids(self) -> list[str]:
        return [str(attributes["id"]) for _, attributes in self.elements if "id" in attributes]

    def data(self, id_: str) -> Any:
        """The JSON in a script element."""
        return next(json.loads(text) for attributes, text in self.scripts if attributes.get("id") == id_)


class Report:
    """The report of a results folder."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.source = (folder / "report.html").read_text("utf-8")
        self.page = Page(self.source)
        self.index = self.page.data("index")

    def table(self, name: str) -> list[dict[str, Any]]:
        """All rows of a result table, as the page has them."""
        (place,) = (table for table in self.index["tables"] if table["name"] == name)
        if place["file"]:
            script = (self.folder / place["file"]).read_text("utf-8")
            table = json.loads(re.fullmatch(rf'l4slab\.table\("{name}",(.*)\)\n', script)[1])
        else:
            table = self.page.data(f"table-of-{name}")
        columns = {
            column["id"]: [column["levels"][code] for code in column["codes"]]
            if "levels" in column
            else column["values"]
            for column in table["columns"]
        }
        return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]

    def run(self, id_: str) -> dict[str, Any]:
        """A run, as it is opened."""
        packed = (self.index["runs"] or {}).get(id_)
        if packed is None:
            script = (self.folder / "runs" / self.index["form"] / f"{id_}.js").read_text("ascii")
            packed = re.fullmatch(rf'l4slab\.run\("{id_}","([\w+/=]*)"\)\n', script)[1]
        return json.loads(zlib.decompress(base64.b64decode(packed)))
