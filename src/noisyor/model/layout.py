"""The layout of a convolutional network: sizes of images and features, and positions.

A `Network` keeps its layout in ``network.layout``, through training, pickling and files, so that
the positions of features in an image need not be guessed from array shapes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from noisyor._util.arrays import IntArray, LongArray, pointers
from noisyor._util.validation import is_whole
from noisyor.errors import InvalidNetworkError


class Edges(NamedTuple):
    """Parents of every visible: ``parent[ptr[i]:ptr[i + 1]]``, and the feature entry of an edge."""

    ptr: LongArray
    parent: npt.NDArray[np.integer]
    entry: npt.NDArray[np.integer]


class Placement(NamedTuple):
    """A component at a position: image row and column of its top left pixel, perhaps negative."""

    component: int
    row: int
    column: int


@dataclass(frozen=True)
class ConvolutionalLayout:
    """Components, each with a feature of one shape, at all positions of an image.

    Hidden node ``(component, i, j)``, numbered row-major, is a component at a position. With
    ``border`` the positions include those where the feature hangs over the border of the image.
    """

    image_shape: tuple[int, int]
    feature_shape: tuple[int, int]
    n_components: int
    border: bool = False

    def __post_init__(self) -> None:
        check_positive(n_components=self.n_components)
        object.__setattr__(self, "image_shape", _plane("image_shape", self.image_shape))
        object.__setattr__(self, "feature_shape", _plane("feature_shape", self.feature_shape))
        object.__setattr__(self, "border", bool(self.border))
        self.state_shape  # noqa: B018  features that do not fit are refused here

    @cached_property
    def state_shape(self) -> tuple[int, int]:
        """Number of positions (rows, columns) of one component."""
        return state_shape(self.image_shape, self.feature_shape, self.border)

    @property
    def n_positions(self) -> int:
        """Number of positions of one component."""
        return self.state_shape[0] * self.state_shape[1]

    @property
    def n_visible(self) -> int:
        """Number of pixels."""
        return self.image_shape[0] * self.image_shape[1]

    @property
    def n_hidden(self) -> int:
        """Number of hidden nodes: components times positions."""
        return self.n_components * self.n_positions

    @property
    def overhang(self) -> tuple[int, int]:
        """Number of rows and of columns that a feature may hang over the border of the image."""
        height, width = self.feature_shape
        return (height - 1, width - 1) if self.border else (0, 0)

    def placement(self, hidden: int) -> Placement:
        """Return the component of a hidden node, and where its feature lies in the image."""
        component, position = divmod(hidden, self.n_positions)
        row, column = divmod(position, self.state_shape[1])
        return Placement(component, row - self.overhang[0], column - self.overhang[1])

    def edges(self) -> Edges:
        """Return the edges from all positions to the pixels that the features cover there.

        Parents of a pixel come in rising order. ``entry`` is the edge's row-major index in the
        features, (n_components, height, width).
        """
        (rows, columns), (height, width) = self.state_shape, self.feature_shape
        counts, parents, entries = [], [], []
        for y in range(self.image_shape[0]):  # one row of pixels at a time bounds the memory
            # Axes (pixel column, component, feature row, feature column); feature offsets fall
            # along an axis, so positions rise: flattening lists parents in rising order.
            x, f, a, b = np.ogrid[: self.image_shape[1], : self.n_components, :height, :width]
            a, b = height - 1 - a, width - 1 - b
            i, j = y - a + self.overhang[0], x - b + self.overhang[1]
            fits = ((i >= 0) & (i < rows)).ravel()
            i, a = i[:, :, fits], a[:, :, fits]
            shape = np.broadcast_shapes(x.shape, f.shape, a.shape, b.shape)
            inside = np.broadcast_to((j >= 0) & (j < columns), shape)
            counts.append(inside.reshape(len(x), -1).sum(axis=1))
            parents.append(np.broadcast_to((f * rows + i) * columns + j, shape)[inside])
            entries.append(np.broadcast_to((f * height + a) * width + b, shape)[inside])
        return Edges(
            pointers(np.concatenate(counts)), np.concatenate(parents), np.concatenate(entries)
        )

    def describes(self, child_ptr: LongArray, parent: IntArray) -> bool:
        """Return whether these are the edges of the layout."""
        covered = self.n_visible if self.border else self.n_positions
        n_entries = self.n_components * self.feature_shape[0] * self.feature_shape[1]
        if len(parent) != covered * n_entries:
            return False
        edges = self.edges()
        ends = np.minimum(np.arange(len(child_ptr)), self.n_visible)
        return np.array_equal(child_ptr, edges.ptr[ends]) and np.array_equal(parent, edges.parent)


def layout_to_json(layout: ConvolutionalLayout | None) -> dict[str, Any] | None:
    """Return a layout as plain JSON; None without a layout."""
    if layout is None:
        return None
    plain = {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in asdict(layout).items()
    }
    return {"kind": "convolutional", **plain}


def layout_from_json(plain: object) -> ConvolutionalLayout | None:
    """Return the layout that `layout_to_json` described; raise `InvalidNetworkError` otherwise."""
    kind = plain.get("kind") if isinstance(plain, Mapping) else None
    if plain is None or kind in ("bipartite", "layered"):  # files of 0.1.0 name these, too
        return None
    if not isinstance(plain, Mapping) or kind != "convolutional":
        raise InvalidNetworkError(
            f"the kind of a layout must be 'convolutional', got {str(plain)[:60]!r}"
        )
    fields = {name: value for name, value in plain.items() if name != "kind"}
    if not isinstance(fields.get("border", False), bool):
        raise InvalidNetworkError("border of a layout must be true or false")
    try:
        return ConvolutionalLayout(**fields)
    except TypeError as error:
        raise InvalidNetworkError(f"the layout is malformed: {error}") from None


def state_shape(
    image_shape: tuple[int, int], feature_shape: tuple[int, int], border: bool = False
) -> tuple[int, int]:
    """Return the number of positions (rows, columns) of a feature in an image.

    Hidden states of a `convolutional` network have shape
    ``states.reshape(-1, n_components, *state_shape(image_shape, feature_shape, border))``.

    Parameters
    ----------
    image_shape, feature_shape : (height, width).
    border : False counts the positions with the whole feature inside the image, True those where
        it covers at least one pixel.
    """
    image, feature = _plane("image_shape", image_shape), _plane("feature_shape", feature_shape)
    if border:
        return image[0] + feature[0] - 1, image[1] + feature[1] - 1
    if feature[0] > image[0] or feature[1] > image[1]:
        raise InvalidNetworkError(
            f"features of shape {feature} do not fit into images of shape {image}; "
            "use smaller features, or border=True to let them hang over the border"
        )
    return image[0] - feature[0] + 1, image[1] - feature[1] + 1


def check_positive(**sizes: object) -> None:
    """Reject sizes that are not positive integers."""
    for name, size in sizes.items():
        if not is_whole(size) or size < 1:  # type: ignore[operator]
            raise InvalidNetworkError(f"{name} must be a positive whole number, got {size!r}")


def _plane(name: str, shape: Sequence[int]) -> tuple[int, int]:
    sides = tuple(shape) if np.iterable(shape) else (shape,)
    if len(sides) != 2:
        raise InvalidNetworkError(f"{name} must be (height, width), got {sides!r}")
    check_positive(**{f"{name}[0]": sides[0], f"{name}[1]": sides[1]})
    return int(sides[0]), int(sides[1])
