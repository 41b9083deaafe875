"""From data to a learned network in one call, one function per kind of network.

Estimators and the command line call these. Where the paper's protocol is wanted instead, put it
together from `initialize` and `train`.
"""
