from .export import export_network as export_network
from .export import to_networkx as to_networkx
from .model_file import load_model as load_model
from .model_file import read_metadata as read_metadata
