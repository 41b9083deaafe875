from .export import export_network
from .model_file import SavedModel, load_model, load_network, read_metadata, save_network
from .networkx import from_networkx, to_networkx

__all__ = [
    "SavedModel",
    "export_network",
    "from_networkx",
    "load_model",
    "load_network",
    "read_metadata",
    "save_network",
    "to_networkx",
]
