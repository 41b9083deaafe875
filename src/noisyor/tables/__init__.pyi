from .options import FORMATS as FORMATS
from .options import MISSING as MISSING
from .options import Format as Format
from .options import ReadOptions as ReadOptions
from .table import Table as Table
from .table import file_lines as file_lines
from .table import rows_of_codes as rows_of_codes
