"""Learning: training by gradients, Gibbs sampling, pruning, and recipes that use them.

`train`, `initialize`, `train_stream` and the recipes `learn_factors`, `learn_topics`,
`learn_features` and `learn_network` are at the root of the package; this namespace holds their
parts.
"""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
