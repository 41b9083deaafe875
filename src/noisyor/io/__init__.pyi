from .export import to_networkx as to_networkx
from .model_file import load_model as load_model
