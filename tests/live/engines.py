"""Engines that a session's process loads in place of a simulator."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from l4slab.base.errors import InputError


class Odd:
    """Answers with what it was asked, or does what `do` says."""

    def __init__(self) -> None:
        if folder := os.environ.get("ODD_FOLDER"):
            (Path(folder) / str(os.getpid())).touch()
        self._asked = 0

    def ask(self, text: str) -> str:
        request: dict[str, Any] = json.loads(text)
        self._asked += 1
        match request.get("do"):
            case "sleep":
                time.sleep(request["seconds"])
            case "allocate":
                bytearray(request["bytes"])
            case "answer":
                return json.dumps({"ok": "x" * request["bytes"]})
            case "print":
                print("a word on the standard output")
            case "break":
                sys.stderr.write("the last words\n")
                os.abort()
        return json.dumps({"ok": {"pid": os.getpid(), "asked": self._asked, "request": request}})

    def close(self) -> None:
        if folder := os.environ.get("ODD_FOLDER"):
            (Path(folder) / str(os.getpid())).unlink()


class Missing:
    """Cannot be had."""

    def __init__(self) -> None:
        raise InputError("there is no kernel; build it with: l4slab linux build")
