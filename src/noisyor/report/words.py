"""What the parts of a model are called on pages, and what a model is in a few words."""

from __future__ import annotations

from typing import NamedTuple

from noisyor._util.kinds import Kind
from noisyor.model.graph import Network
from noisyor.model.layout import ConvolutionalLayout
from noisyor.report.inputs import Model

__all__ = ["WORDS", "Words", "count", "headline", "is_drawn", "is_one_set", "words_of"]


class Words(NamedTuple):
    """What the parts of a model are called: singular and plural of cause, visible and row."""

    cause: str
    causes: str
    visible: str
    visibles: str
    row: str
    rows: str


WORDS: dict[Kind, Words] = {
    "topics": Words("topic", "topics", "word", "words", "document", "documents"),
    "factors": Words("cause", "causes", "column", "columns", "row", "rows"),
    "features": Words("feature", "features", "pixel", "pixels", "image", "images"),
    "network": Words("cause", "causes", "finding", "findings", "row", "rows"),
}


def words_of(model: Model) -> Words:
    """What the parts of a model are called; causes of images switch on pixels."""
    words = WORDS[model.kind]
    if is_one_set(model.network) and model.kind == "factors":
        words = words._replace(cause="kind", causes="kinds")
    if not is_drawn(model.network):
        return words
    return words._replace(visible="pixel", visibles="pixels", row="image", rows="images")


def is_one_set(network: Network) -> bool:
    """Whether all causes exclude each other, so that each is a kind of rows."""
    return network.sets.n_sets == 1 and bool((network.sets.number >= 0).all())


def is_drawn(network: Network) -> bool:
    """Whether the visibles are the pixels of an image, and have no names of their own."""
    return len(network.visible_shape) == 2 and network.visible_names is None


def headline(model: Model) -> str:
    """What the model is, in a few words."""
    network, words = model.network, words_of(model)
    visibles = f"{network.n_visible:,} {words.visibles}"
    if isinstance(network.layout, ConvolutionalLayout):
        # Sizes stay in one line: no-break spaces.
        small, large = (
            "\u00a0×\u00a0".join(map(str, shape))
            for shape in (network.layout.feature_shape, network.layout.image_shape)
        )
        return f"{network.layout.n_components:,} features of {small} pixels, in images of {large}"
    causes = count(network.n_hidden, words.cause, words.causes)
    if network.sets and not is_one_set(network):
        causes += f" (at most one of each of {count(network.sets.n_sets, 'set', 'sets')})"
    if network.n_layers > 1:
        return f"{causes} in {network.n_layers} layers above {visibles}"
    return f"{causes} behind {visibles}"


def count(number: int, singular: str, plural: str) -> str:
    """A number and what is counted."""
    return f"{number:,} {singular if number == 1 else plural}"
