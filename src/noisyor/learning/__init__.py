"""Learn the parameters of a network: gradient training, streams, Gibbs EM, recipes."""
