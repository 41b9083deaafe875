"""Mixtures of Bernoulli products: one, averages of several, and networks that start from them."""
