"""Engines: functions from a run to a recording. Nothing downstream knows which engine made it."""
