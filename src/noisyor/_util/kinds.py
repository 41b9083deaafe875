"""The kind of a model, as files, labels and reports name it."""

from typing import Literal

Kind = Literal["factors", "topics", "features", "network"]
"""Causes of columns, a hierarchy of topics, patches of images, any graph."""
