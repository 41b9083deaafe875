"""What reading a file gives."""

from __future__ import annotations

from dataclasses import dataclass

from noisyor.data.observations import Observations

__all__ = ["Table"]


@dataclass(frozen=True, eq=False)
class Table:
    """Content of a file.

    Attributes
    ----------
    observations : the rows, with names of the columns if the file has any.
    row_names : (n_rows,) or None.
    format : a key of ``FORMATS``; `read_table` fills it in.
    documents : whether the columns are words of texts.
    ignored : columns, or occurrences of items, that the model does not have.

    Examples
    --------
    >>> import noisyor as nor
    >>> with open("shopping.basket", "w") as file:
    ...     _ = file.write("bread,milk\\nmilk\\n")
    >>> table = nor.read_table("shopping.basket")
    >>> table.format, table.documents, table.observations.n_rows
    ('baskets', False, 2)
    """

    observations: Observations
    row_names: tuple[str, ...] | None = None
    format: str = ""
    documents: bool = False
    ignored: int = 0
