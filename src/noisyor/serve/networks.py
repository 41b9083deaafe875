"""Answer questions about any network: factors, topics, images."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from noisyor._util.arrays import FloatArray
from noisyor.data.observations import Observations
from noisyor.engines.registry import get_engine
from noisyor.explanation.counterfactual import cause_shifts
from noisyor.explanation.interview import Interview, NextQuestion
from noisyor.explanation.ranking import find_visible
from noisyor.model.names import hidden_names, visible_label
from noisyor.report.inputs import Model, describe, read_model, words_of
from noisyor.serve.subjects import MOST_LISTED, REMEMBERED, Answer, Findings, matches

_CHAINS = 48
_MOST_PIXELS = 4096


class NetworkSubject:
    """A network as a subject; ``sha256`` is the hash of its model file."""

    def __init__(self, model: Model, sha256: str | None = None) -> None:
        self._sha256 = sha256
        network = model.network
        if network.hidden_names is None:
            network = replace(network, hidden_names=hidden_names(network, model.kind))
        self.model, self.network = model, network
        # Requests run concurrently, each on one thread.
        engine = get_engine("auto", n_threads=1)
        self._interview = Interview(network, n_samples=_CHAINS, engine=engine)
        self._names = [visible_label(network, i) for i in range(network.n_visible)]
        self._folded = [name.casefold() for name in self._names]
        self._remembered = lru_cache(REMEMBERED)(self._ask)
        self._remembered_chances = lru_cache(REMEMBERED)(self._chances)
        # The first answer loads compiled code: give it before the first request.
        common = Findings((int(np.argmax(self._interview.base)),), ())
        self._interview.next_question(self._row(common), method="sweeps")

    def about(self) -> Answer:
        """Describe the model."""
        network, words = self.network, words_of(self.model)
        return {
            "name": self.model.name,
            "sha256": self._sha256,
            "kind": self.model.kind,
            "headline": describe(self.model),
            "words": {
                "cause": words.cause,
                "causes": words.causes,
                "finding": words.visible,
                "findings": words.visibles,
            },
            "n_causes": network.n_hidden,
            "n_findings": network.n_visible,
            "image": list(network.visible_shape) if self._is_drawn else None,
            "notice": None,
        }

    def find(self, finding: str | int) -> int:
        """Return the index of a finding."""
        return find_visible(self.network, finding)

    def complete(self, text: str, limit: int) -> list[Answer]:
        """Return findings whose names contain a text."""
        return [
            {**self._named(i), "hint": ""}
            for i in matches(self._folded, text, limit, self._interview.base)
        ]

    def explain(self, findings: Findings, top: int) -> Answer:
        """Return causes, likely findings and questions."""
        found = self._remembered(findings)
        ranking = found.ranking
        return {
            "present": [self._named(i) for i in findings.present],
            "absent": [self._named(i) for i in findings.absent],
            "method": ranking.method,
            "exact": ranking.exact,
            "causes": [
                {
                    **_record(cause),
                    "explains": [_record(item) for item in cause.explains],
                    "against": [],
                }
                for cause in ranking.causes[:top]
            ],
            "unexplained": list(ranking.unexplained),
            "likely": [_record(one) for one in found.likely[:top]],
            "questions": [
                {
                    **_record(one),
                    "if_present": dict(zip(("cause", "probability"), one.if_present, strict=True)),
                    "if_absent": dict(zip(("cause", "probability"), one.if_absent, strict=True)),
                }
                for one in found.questions[:top]
            ],
            "pixels": np.rint(1000 * found.visible).astype(int).tolist()
            if self._is_drawn
            else None,
        }

    def what_if(self, findings: Findings, finding: int) -> Answer:
        """Return the effect of one finding."""
        now, others = findings.states_of(finding)
        before = self._remembered_chances(findings)
        changes = []
        for state in others:
            after = self._remembered_chances(findings.but(finding, state))
            shifts = cause_shifts(
                self.network, self._row(findings), before, after, rivalry=state == "present"
            )
            changes.append({"if": state, "shifts": [_record(shift) for shift in shifts]})
        return {"finding": self._named(finding), "now": now, "changes": changes}

    def _ask(self, findings: Findings) -> NextQuestion:
        return self._interview.next_question(self._row(findings), top=MOST_LISTED)

    def _chances(self, findings: Findings) -> FloatArray:
        return self._interview.cause_probability(self._row(findings))

    def _row(self, findings: Findings) -> Observations:
        return Observations.from_evidence(
            self.network.n_visible, list(findings.present), list(findings.absent)
        )

    def _named(self, finding: int) -> Answer:
        return {"id": finding, "name": self._names[finding]}

    @property
    def _is_drawn(self) -> bool:
        """Return whether there is an image to draw."""
        return len(self.network.visible_shape) == 2 and self.network.n_visible <= _MOST_PIXELS


def _record(one: Any) -> Answer:
    """Return the fields of a cause, finding or shift, with its index as ``id``."""
    rest = {name: value for name, value in vars(one).items() if name not in ("index", "in_best")}
    return {"id": one.index, **rest}


def load_subject(path: Path) -> NetworkSubject:
    """Load the network of a model file, with the SHA-256 hash of the file."""
    model = read_model(path)
    with path.open("rb") as stream:
        return NetworkSubject(model, hashlib.file_digest(stream, "sha256").hexdigest())
