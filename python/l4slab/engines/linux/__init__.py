"""The engine `linux`: the same run on a real Linux kernel, booted in virtual time as User Mode Linux."""

from __future__ import annotations

from l4slab.engines.linux.engine import LinuxEngine

__all__ = ["LinuxEngine"]
