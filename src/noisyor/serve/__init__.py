"""Serve a model on an interactive page and as a JSON API on this machine."""
