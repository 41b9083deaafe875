"""Sets of distinct configurations of a row that grow by single flips of their likeliest members."""

from __future__ import annotations

import numpy as np

from noisyor._util.arrays import BinaryArray, FloatArray
from noisyor.engines.numpy.local_model import LocalModel, Walker


class ConfigurationSet:
    """Distinct configurations of the nodes of a local model, and their log p(h, x)."""

    def __init__(self) -> None:
        self.value: dict[bytes, float] = {}

    @staticmethod
    def grown(model: LocalModel, starts: BinaryArray, n_expansions: int) -> ConfigurationSet:
        """The set that holds ``starts`` (n_starts, n) and all flips of the likeliest members.

        Members are expanded one after another, each time the likeliest that was not yet, the first
        one if they are equal. Before all of them, and not counted, the configuration in which
        nothing is on: its flips are all explanations by a single cause.
        """
        found, done = ConfigurationSet(), set[bytes]()
        nothing = np.where(model.is_free, np.uint8(0), model.clamp)
        states = [*starts, nothing] if n_expansions > 0 else list(starts)
        for state in states:
            known = np.where(model.is_free, state, model.clamp).astype(np.uint8)
            if known not in found:
                found.add(known, Walker(model, known).log_joint())
        best: bytes | None = nothing.tobytes() if n_expansions > 0 else None
        for _ in range(n_expansions + 1):
            if best is None:
                break
            done.add(best)
            found._expand(model, np.frombuffer(best, dtype=np.uint8))
            left = [member for member in found.value if member not in done]
            best = max(left, key=found.value.__getitem__, default=None)
        return found

    def __contains__(self, state: BinaryArray) -> bool:
        return state.tobytes() in self.value

    def __len__(self) -> int:
        return len(self.value)

    def add(self, state: BinaryArray, value: float) -> None:
        """Add a configuration (n,) that is not yet there."""
        self.value[state.tobytes()] = value

    def log_sum(self) -> float:
        """Log of the sum of p(h, x) over the set."""
        values = np.array(list(self.value.values()))
        return float(values.max() + np.log(np.exp(values - values.max()).sum()))

    def mean(self) -> FloatArray:
        """Probability of each node to be on, given that the configuration is in the set, (n,)."""
        weight = np.exp(np.array(list(self.value.values())) - self.log_sum())
        states = np.array([np.frombuffer(member, dtype=np.uint8) for member in self.value])
        return np.asarray(np.clip(weight / weight.sum() @ states, 0.0, 1.0))

    def _expand(self, model: LocalModel, state: BinaryArray) -> None:
        """Add all single flips of free nodes."""
        for j in np.flatnonzero(model.is_free).tolist():
            flipped = state.copy()
            flipped[j] ^= 1
            if flipped not in self:
                self.add(flipped, Walker(model, flipped).log_joint())
