"""What a model is: the word that files, labels and reports share."""

from typing import Literal

Kind = Literal["factors", "topics", "features", "network"]
"""Causes of columns, a hierarchy of topics, patches of images, any graph."""
