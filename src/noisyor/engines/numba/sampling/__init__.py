"""Gibbs sweeps, annealed chains and sets of explanations, compiled."""
