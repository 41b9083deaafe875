"""Users' files as `Observations` with names of their columns and rows."""

from noisyor.tables.options import FORMATS, ReadOptions
from noisyor.tables.read import Table, read_table

__all__ = ["FORMATS", "ReadOptions", "Table", "read_table"]
