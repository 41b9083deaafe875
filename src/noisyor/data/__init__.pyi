from .chunks import RowSource as RowSource
from .chunks import open_rows as open_rows
from .chunks import write_rows as write_rows
from .vocabulary import vectorize as vectorize
