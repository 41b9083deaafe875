"""The interface between the server and a model: questions, and findings by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from noisyor.explanation.ranking import FindingState

Answer = dict[str, Any]

MOST_LISTED = 50
"""Largest number of causes, likely findings and questions in one answer."""

REMEMBERED = 256
"""Answers that a subject caches."""


class Findings(NamedTuple):
    """Indices of the findings that are present and absent, ascending; all others are unknown."""

    present: tuple[int, ...]
    absent: tuple[int, ...]

    def states_of(self, finding: int) -> tuple[FindingState, list[FindingState]]:
        """Return the state of a finding, and the other possible states."""
        every: tuple[FindingState, ...] = ("unknown", "present", "absent")
        known: FindingState = "present" if finding in self.present else "absent"
        now = known if finding in (*self.present, *self.absent) else "unknown"
        return now, [state for state in every if state != now]

    def but(self, finding: int, state: FindingState) -> Findings:
        """Return the findings with one of them in another state."""
        present, absent = set(self.present) - {finding}, set(self.absent) - {finding}
        if state != "unknown":
            (present if state == "present" else absent).add(finding)
        return Findings(tuple(sorted(present)), tuple(sorted(absent)))


class Subject(Protocol):
    """A model that answers questions in plain JSON, from several threads."""

    def about(self) -> Answer:
        """Describe the model, in numbers and in words."""
        ...

    def find(self, finding: str | int) -> int:
        """Return the index of a finding from its name or id, or raise `InvalidDataError`."""
        ...

    def complete(self, text: str, limit: int) -> list[Answer]:
        """Return findings whose names contain a text, the best match first."""
        ...

    def explain(self, findings: Findings, top: int) -> Answer:
        """Return causes with the findings they explain, other likely findings, and questions."""
        ...

    def what_if(self, findings: Findings, finding: int) -> Answer:
        """Return the changes if one finding had another state."""
        ...


def matches(names: Sequence[str], text: str, limit: int, weight: Any) -> list[int]:
    """Return indices of names that contain a text: equal, then at the start, at a word, elsewhere.

    ``names`` are case-folded. Among equal matches, larger ``weight`` comes first.
    """
    wanted = text.strip().casefold()
    found = []
    for index, name in enumerate(names):
        offset = name.find(wanted)
        if offset < 0:
            continue
        if name == wanted:
            rank = 0
        elif offset == 0:
            rank = 1
        else:
            rank = 2 if f" {wanted}" in name else 3
        found.append((rank, -float(weight[index]), len(name), index))
    return [index for *_, index in sorted(found)[:limit]]
