"""Extension of mkdocstrings: read ``name : description`` as noisyor writes it.

The docstrings of noisyor follow the NumPy style but put no types into it, because signatures have
them: ``rows : binary (n_rows, n_visible)``. Without this extension the reference would show each
description as a type.
"""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension

SECTION = re.compile(
    r"^(Parameters|Attributes|Raises|Returns|Yields)\n-+\n(.*?)(?=^\w[\w ]*\n-+\n|\Z)",
    re.DOTALL | re.MULTILINE,
)
ENTRY = re.compile(r"^(\*{0,2}\w+(?:, \*{0,2}\w+)*) : (.*)$", re.MULTILINE)


class DescriptionsWithoutTypes(Extension):
    """Move the description of every entry to a line of its own, below the name."""

    def on_object(self, *, obj: Any, **_: Any) -> None:
        """Rewrite the docstring of an object, if it has one."""
        if obj.docstring is not None:
            obj.docstring.value = SECTION.sub(_rewrite, obj.docstring.value)


def _rewrite(section: re.Match[str]) -> str:
    title, body = section.groups()
    if title in ("Returns", "Yields"):
        body = ":\n" + re.sub(r"^(?=.)", "    ", body, flags=re.MULTILINE)
    else:
        body = ENTRY.sub(r"\1 :\n    \2", body)
    return f"{title}\n{'-' * len(title)}\n{body}"
