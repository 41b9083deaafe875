from .inference import evaluate as evaluate
from .inference import explain as explain
from .training import train as train
