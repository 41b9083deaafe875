from .chunks import RowSource as RowSource
from .chunks import open_rows as open_rows
from .chunks import write_rows as write_rows
from .columns import OneHot as OneHot
from .columns import find_one_hot as find_one_hot
from .vocabulary import TextData as TextData
from .vocabulary import vectorize as vectorize
