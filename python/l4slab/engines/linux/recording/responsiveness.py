"""The score of a test of responsiveness, as its client tells it (`engines.linux.carried`)."""

from __future__ import annotations

import json
from typing import Any

from l4slab.base.values import Row
from l4slab.engines.linux.flows import Flow
from l4slab.engines.linux.recording.observed import CheckError, Observed

_NUMBERS = ("active_mbps", "rpm", "rpm_foreign", "rpm_self", "idle_ms_p50", "loaded_ms_p50", "loaded_ms_p95")
_CONFIDENCE = "rpm_confidence"


def of_flow(observed: Observed, flow: Flow) -> Row:
    """The columns of the table `flows` that tell of responsiveness: means of the tests that the flow has."""
    if not flow.is_test:
        return {}
    numbers = range(1, flow.spec["count"] + 1)
    scores = [_score(f"{flow.output('client', number)}.out", observed) for number in numbers]
    row: Row = {}
    for name in _NUMBERS:
        known = [score[name] for score in scores if name in score]
        row[name] = sum(known) / len(known) if known else None
    confidences = {score.get(_CONFIDENCE) for score in scores}
    row[_CONFIDENCE] = confidences.pop() if len(confidences) == 1 else "mixed"
    return row


def _score(file: str, observed: Observed) -> dict[str, Any]:
    """Of one test; empty where that ended before its first interval did. Raises CheckError."""
    said = observed.said.get(file, "")
    try:
        score = json.loads(said or "{}")
    except ValueError:
        score = None
    if not isinstance(score, dict):
        raise CheckError(f'{file} has no score of responsiveness at its end: "{said}"')
    return score
