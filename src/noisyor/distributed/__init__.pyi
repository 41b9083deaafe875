from .fitting import search_factors as search_factors
from .gibbs import learn_by_gibbs as learn_by_gibbs
from .inference import evaluate as evaluate
from .inference import explain as explain
from .training import train as train
