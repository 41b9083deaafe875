from .chunks import RowSource as RowSource
from .chunks import open_rows as open_rows
from .chunks import write_rows as write_rows
from .columns import align as align
from .columns import select_columns as select_columns
from .vocabulary import TextData as TextData
from .vocabulary import encode_documents as encode_documents
from .vocabulary import vectorize as vectorize
