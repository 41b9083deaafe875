"""The directed graph, its parameters, its builders and its forward pass."""
