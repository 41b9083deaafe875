from .formats import FORMATS as FORMATS
from .options import ReadOptions as ReadOptions
from .read import read_table as read_table
from .table import Table as Table
