"""What a model file says about itself, in words; nothing in it is taken for granted."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from noisyor.io.provenance import mapping_in

__all__ = ["provenance_rows", "same_data"]

_LONGEST = 300

_TITLES = {
    "created": "Created",
    "kind": "Kind",
    "data.rows": "Training rows",
    "data.columns": "Training columns",
    "data.ones": "Ones in the training data",
    "data.missing": "Unobserved entries",
    "data.sha256": "Fingerprint of the training data (SHA-256)",
    "data.source": "Training data from",
    "versions.noisyor": "Version of noisyor",
    "versions.numpy": "Version of NumPy",
    "versions.python": "Version of Python",
}


def same_data(metadata: Mapping[str, Any], fingerprint: str) -> bool:
    """Whether these are the data that the model was trained on."""
    return mapping_in(metadata, "data").get("sha256") == fingerprint


def provenance_rows(metadata: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Everything else that the file says, flat: what, and its value as text."""
    rows: list[tuple[str, str]] = []
    first = [name for name in ("created", "kind", "data", "settings") if name in metadata]
    rest = [name for name in metadata if name not in (*first, "curve", "metrics")]
    for name in [*first, *rest]:
        _flatten(metadata[name], name, rows)
    return rows


def _flatten(value: Any, path: str, rows: list[tuple[str, str]]) -> None:
    if isinstance(value, Mapping) and value:
        for key, inner in value.items():
            _flatten(inner, f"{path}.{key}" if path else str(key), rows)
        return
    if value is None or value == {}:
        return
    if isinstance(value, int) and not isinstance(value, bool):
        text = f"{value:,}"
    else:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    title = _TITLES.get(path) or path.removeprefix("settings.").replace("_", " ").replace(".", ": ")
    rows.append((title, text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"))
