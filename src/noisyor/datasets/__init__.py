"""Data to learn from: one module per data set or family."""
