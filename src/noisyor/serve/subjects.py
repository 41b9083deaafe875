"""What can be asked of a model, whatever it is: the questions, and findings by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from noisyor.explanation.ranking import FindingState

__all__ = ["MOST_LISTED", "REMEMBERED", "Answer", "Findings", "Subject", "matches"]

Answer = dict[str, Any]

MOST_LISTED = 50
"""Causes, likely findings and questions in one answer, at most."""

REMEMBERED = 256
"""Answers that a subject keeps."""


class Findings(NamedTuple):
    """Numbers of the findings that are present and absent, ascending; all others are unknown."""

    present: tuple[int, ...]
    absent: tuple[int, ...]

    def states_of(self, finding: int) -> tuple[FindingState, list[FindingState]]:
        """What is known of a finding, and what else might be."""
        every: tuple[FindingState, ...] = ("unknown", "present", "absent")
        now: FindingState = "unknown"
        if finding in self.present:
            now = "present"
        elif finding in self.absent:
            now = "absent"
        return now, [state for state in every if state != now]

    def but(self, finding: int, state: FindingState) -> Findings:
        """The same with one finding known otherwise."""
        present, absent = set(self.present) - {finding}, set(self.absent) - {finding}
        if state != "unknown":
            (present if state == "present" else absent).add(finding)
        return Findings(tuple(sorted(present)), tuple(sorted(absent)))


class Subject(Protocol):
    """A model that answers; every answer is plain JSON, and may come from several threads."""

    def about(self) -> Answer:
        """What the model is, in numbers and in words."""
        ...

    def find(self, finding: str | int) -> int:
        """Number of a finding from its name or identifier; raises `InvalidDataError`."""
        ...

    def complete(self, text: str, limit: int) -> list[Answer]:
        """Findings whose names hold a text, the best match first."""
        ...

    def explain(self, findings: Findings, top: int) -> Answer:
        """Causes, what they explain, what else is likely, and what to ask next."""
        ...

    def what_if(self, findings: Findings, finding: int) -> Answer:
        """What would change if one finding were known otherwise."""
        ...


def matches(names: Sequence[str], text: str, limit: int, weight: Any) -> list[int]:
    """Numbers of the names that hold a text: whole, then at their beginning, at that of a word.

    ``names`` are without case. Of equal matches the one of larger ``weight`` comes first.
    """
    wanted = text.strip().casefold()
    found = []
    for number, name in enumerate(names):
        place = name.find(wanted)
        if place < 0:
            continue
        if name == wanted:
            rank = 0
        elif place == 0:
            rank = 1
        else:
            rank = 2 if f" {wanted}" in name else 3
        found.append((rank, -float(weight[number]), len(name), number))
    return [number for *_, number in sorted(found)[:limit]]
