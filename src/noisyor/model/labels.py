"""What nodes are called: their own names, or names made from what they switch on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from noisyor._util.kinds import Kind
from noisyor.data.observations import Observations
from noisyor.errors import InvalidNetworkError
from noisyor.model.forward import edge_matrix
from noisyor.model.graph import Network
from noisyor.model.layout import ConvolutionalLayout
from noisyor.model.parameters import probability_from_theta
from noisyor.model.words import distinctive_visibles, topic_words

__all__ = [
    "hidden_label",
    "hidden_names",
    "named_after",
    "one_of",
    "strongest_visibles",
    "visible_label",
]

_WORDS = 3
_KEPT = 12
_FAINT = 0.05
_CLEAR_SHARE = 0.25
"""Of the chance of the likeliest column, from which another may be in the name of a cause."""


def visible_label(network: Network, index: int) -> str:
    """Name of a visible node; without names its number, or of an image the pixel's place.

    Examples
    --------
    >>> import noisyor as nor
    >>> nor.model.visible_label(nor.convolutional((4, 5), 1, (2, 2)), 7)
    'pixel 1,2'
    """
    if network.visible_names is not None:
        return network.visible_names[index]
    if len(network.visible_shape) == 2:
        row, column = divmod(index, network.visible_shape[1])
        return f"pixel {row},{column}"
    return f"column {index}"


def hidden_label(network: Network, index: int) -> str:
    """Name of a hidden node, or its number.

    Examples
    --------
    >>> import noisyor as nor
    >>> nor.model.hidden_label(nor.bipartite(3, 2), 1)
    'cause 1'
    """
    if network.hidden_names is not None:
        return network.hidden_names[index]
    return f"cause {index}"


def one_of(network: Network, index: int) -> str:
    """What to write behind a cause that is in a set of alternatives; nothing for others."""
    number = int(network.sets.number[index])
    return "" if number < 0 else f" (one of set {number})"


def strongest_visibles(network: Network) -> list[list[tuple[int, float]]]:
    """For each hidden node the visible nodes that it is most likely to switch on, with probability.

    For a node above other hidden nodes it is the probability of the likeliest path down. At most
    twelve are listed, the likeliest first, none below 5 percent.

    Examples
    --------
    >>> import noisyor as nor
    >>> network = nor.bipartite(3, 1, failure_probability=[[0.5, 0.99, 0.25]])
    >>> [(i, round(p, 2)) for i, p in nor.model.strongest_visibles(network)[0]]
    [(2, 0.75), (0, 0.5)]
    """
    chance = probability_from_theta(network.theta[network.param])
    ptr, edges = network.outgoing
    found: list[list[tuple[int, float]]] = [[] for _ in range(network.n_hidden)]
    for k in np.argsort(-network.hidden_levels, kind="stable").tolist():
        best: dict[int, float] = {}
        outgoing = edges[ptr[k] : ptr[k + 1]]
        for edge in outgoing[chance[outgoing] >= _FAINT].tolist():
            child, sure = int(network.edge_child[edge]), float(chance[edge])
            below = (
                [(child, 1.0)] if child < network.n_visible else found[child - network.n_visible]
            )
            for visible, further in below:
                best[visible] = max(best.get(visible, 0.0), sure * further)
        ranked = sorted(best.items(), key=lambda item: (-item[1], item[0]))[:_KEPT]
        found[k] = [(visible, sure) for visible, sure in ranked if sure >= _FAINT]
    return found


def hidden_names(
    network: Network, kind: Kind, words: Sequence[Sequence[int]] | None = None
) -> tuple[str, ...]:
    """Names for the hidden nodes of a learned network, from what they switch on.

    Topics: ``"topic 12: word, word, word"``, the first of ``words`` (see `topic_words`) or of those
    that tell a topic from others; of several layers ``"layer1-12: word, word, word"``, layer 1 next
    to the words. Factors: ``"cause 3: column, column, column"``, by the columns that tell a cause
    from others. Features: ``"feature 0 at 3,4"``.

    Examples
    --------
    >>> import noisyor as nor
    >>> network = nor.bipartite(
    ...     2, 1, failure_probability=[[0.1, 0.2]], visible_names=["fever", "cough"])
    >>> nor.model.hidden_names(network, "factors")
    ('cause 0: fever, cough',)
    """
    if kind == "features":
        return tuple(_placements(network))
    prefix = _numbers(network, kind)
    if kind == "topics" and network.n_layers == 1:
        found = distinctive_visibles(network) if words is None else words
        chosen = [list(best[:_WORDS]) for best in found]
    elif network.n_layers == 1:
        chosen = _telling(network)
    else:
        chosen = [[i for i, _ in best[:_WORDS]] for best in strongest_visibles(network)]
    labels = (", ".join(visible_label(network, i) for i in best) for best in chosen)
    return tuple(
        f"{name}: {said}" if said else name for name, said in zip(prefix, labels, strict=True)
    )


def _telling(network: Network) -> list[list[int]]:
    """Columns for the name of each cause: those that tell it from others and that it may switch on.

    What all causes switch on is in no name, unless one has nothing else.
    """
    edge = edge_matrix(network, probability=True)[: network.n_visible].T.toarray()
    least = np.maximum(_FAINT, _CLEAR_SHARE * edge.max(axis=1, initial=0.0))
    strongest, chosen = strongest_visibles(network), []
    for k, distinctive in enumerate(distinctive_visibles(network, _KEPT)):
        own = [i for i in distinctive if edge[k, i] >= least[k]]
        chosen.append((own or [i for i, _ in strongest[k]])[:_WORDS])
    return chosen


def _numbers(network: Network, kind: Kind) -> Iterable[str]:
    if kind != "topics":
        return (f"cause {k}" for k in range(network.n_hidden))
    if network.n_layers == 1:
        return (f"topic {k}" for k in range(network.n_hidden))
    layer = network.n_layers - network.hidden_levels
    place = np.zeros(network.n_hidden, dtype=np.int64)
    for number in range(1, network.n_layers + 1):
        members = np.flatnonzero(layer == number)
        place[members] = np.arange(len(members))
    return (f"layer{layer[k]}-{place[k]}" for k in range(network.n_hidden))


def _placements(network: Network) -> Iterable[str]:
    layout = network.layout
    if not isinstance(layout, ConvolutionalLayout):
        raise InvalidNetworkError(
            "only the hidden nodes of a convolutional network are features at a place"
        )
    for k in range(network.n_hidden):
        component, row, column = layout.placement(k)
        yield f"feature {component} at {row},{column}"


def named_after(network: Network, data: Observations, kind: Kind) -> Network:
    """The network with names and shape of the columns, and causes named by what they switch on."""
    network = replace(network, visible_names=data.column_names, hidden_names=None)
    if len(network.visible_shape) == 1 and len(data.shape) == 2:
        network = replace(network, visible_shape=data.shape)
    words = topic_words(network, data) if kind == "topics" and network.n_layers == 1 else None
    return replace(network, hidden_names=hidden_names(network, kind, words))
