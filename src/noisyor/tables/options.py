"""How a file is to be read: everything that its name and content do not tell."""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from noisyor.errors import InvalidSettingError
from noisyor.tables.formats import FORMATS

__all__ = ["ReadOptions"]


@dataclass(frozen=True)
class ReadOptions:
    """Options of `read_table`; None lets the file decide.

    Attributes
    ----------
    format : a key of ``FORMATS``.
    header : whether the first line of a CSV or TSV file names the columns.
    delimiter : between the fields of a CSV file or of baskets.
    encoding : of text files.
    encoding_errors : "strict" reports bytes that are not in the encoding, "replace" reads each as
        U+FFFD.
    id_column : name or number (from 0) of the column or JSON field that names the rows.
    id_required : whether a file without that column is an error.
    weights : name or number of the column, or name of the JSON field, that says how many rows each
        one stands for, as in an aggregated table. Rows of weight 0 are left out.
    weights_required : whether a file without that column is an error.
    drop : columns, JSON fields or items to leave out.
    above : numbers larger than this are 1, all others 0; without it only 0 and 1 are accepted.
    invert : of images: dark pixels are 1.
    variable : name of the array in an ``.npz`` or ``.mat`` file.
    transpose : the array has a column for each row.
    text_field : column or JSON field with the text of a document, or with a list of items.
    vocabulary : number of words or items to keep, the most frequent ones. Documents: 1,000 if None;
        items: all.
    max_share : words in more than this share of the documents are left out.
    stop_words : ``"english"`` leaves out common English words, numbers and single letters;
        ``"none"`` keeps everything.
    max_tokens : only the first words of a document count.

    Examples
    --------
    >>> import noisyor as nor
    >>> with open("counts.csv", "w") as file:
    ...     _ = file.write("patient,fever,cough\\nA,3,0\\nB,0,1\\n")
    >>> options = nor.tables.ReadOptions(id_column="patient", above=0)
    >>> table = nor.read_table("counts.csv", options)
    >>> table.row_names, table.observations.n_active
    (('A', 'B'), 2)
    """

    format: str | None = None
    header: bool | None = None
    delimiter: str | None = None
    encoding: str = "utf-8"
    encoding_errors: str = "strict"
    id_column: str | None = None
    id_required: bool = True
    weights: str | None = None
    weights_required: bool = True
    drop: tuple[str, ...] = ()
    above: float | None = None
    invert: bool = False
    variable: str | None = None
    transpose: bool = False
    text_field: str | None = None
    vocabulary: int | None = None
    max_share: float = 0.5
    stop_words: str = "english"
    max_tokens: int = 500

    def __post_init__(self) -> None:
        if self.format is not None and self.format not in FORMATS:
            raise InvalidSettingError(f"format is one of {', '.join(FORMATS)}, got {self.format!r}")
        if self.delimiter is not None and (len(self.delimiter) != 1 or self.delimiter in '"\r\n'):
            raise InvalidSettingError(
                f"the delimiter is one character between fields, got {self.delimiter!r}"
            )
        if self.above is not None and self.above != self.above:
            raise InvalidSettingError("the threshold (above) is a number, got nan")
        if not 0 < self.max_share <= 1:
            raise InvalidSettingError(
                f"max_share is a share of the documents in (0, 1], got {self.max_share}"
            )
        if self.stop_words not in ("english", "none"):
            raise InvalidSettingError(f"stop_words is 'english' or 'none', got {self.stop_words!r}")
        if self.encoding_errors not in ("strict", "replace"):
            raise InvalidSettingError(
                f"encoding_errors is 'strict' or 'replace', got {self.encoding_errors!r}"
            )
        for name in ("vocabulary", "max_tokens"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InvalidSettingError(f"{name} is at least 1, got {value}")
        try:
            # Lines are found before they are decoded, so their ends must be those of ASCII.
            suitable = codecs.encode("a\n,1", self.encoding) == b"a\n,1"
        except (LookupError, TypeError, ValueError):
            suitable = False
        if not suitable:
            raise InvalidSettingError(
                f"encoding is that of a text such as utf-8 or latin-1, got {self.encoding!r}"
            )

    def to_json(self) -> dict[str, Any]:
        """What differs from the default, as plain JSON."""
        plain = ReadOptions()
        changed = {k: v for k, v in asdict(self).items() if v != getattr(plain, k)}
        return {k: list(v) if isinstance(v, tuple) else v for k, v in changed.items()}

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> ReadOptions:
        """Options that `to_json` wrote; anything else in the record is an error."""
        known = {field.name for field in fields(cls)}
        if not isinstance(record, Mapping) or not set(record) <= known:
            raise InvalidSettingError("the options of reading are not those of this version")
        values: dict[str, Any] = {
            k: tuple(v) if isinstance(v, list) else v for k, v in record.items()
        }
        try:
            return cls(**values)
        except (TypeError, AttributeError) as error:
            raise InvalidSettingError(f"the options of reading make no sense: {error}") from error
