from .documents import load_documents as load_documents
from .options import FORMATS as FORMATS
from .options import ReadOptions as ReadOptions
from .table import Table as Table
