# SPDX-License-Identifier: GPL-2.0-only
"""The kernel, the user land and the laboratory program of l4slab's engine `linux`."""

import json
from pathlib import Path

FOLDER = Path(__file__).parent
KNOWN = json.loads((FOLDER / "kernel.json").read_text())
__version__ = KNOWN["package"]
