"""Optimizers for training: Adam, and the protocol for other optimizers.

An optimizer is a value with two functions, as in optax, whose optimizers can be used as they are.
Its state is any nesting of tuples, lists and dictionaries that holds numbers and arrays, so that
checkpoints can store the state of every optimizer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from noisyor._util.arrays import FloatArray
from noisyor._util.validation import BELOW_ONE, OPTIONS, POSITIVE, check_settings, is_finite
from noisyor.errors import InvalidSettingError

Rate = float | Callable[[int], float]
"""A learning rate: a number, or a function of the number of updates done so far."""


class Optimizer(Protocol):
    """Protocol of an optimizer, the same as optax's ``GradientTransformation``.

    An optimizer minimizes. ``gradient`` (n_params,) is the gradient of the negative mean bound per
    row; ``theta`` (n_params,) are the parameters, or their logarithms with
    ``parameterization="log"``.

    Examples
    --------
    >>> import numpy as np, noisyor as nor
    >>> class Descent:
    ...     def init(self, theta):
    ...         return ()
    ...
    ...     def update(self, gradient, state, theta):
    ...         return -0.1 * gradient, state
    >>> network = nor.bipartite(n_visible=2, n_hidden=1)
    >>> nor.train(network, np.eye(2), optimizer=Descent(), steps=3, progress=False).state.step
    3
    """

    def init(self, theta: FloatArray, /) -> Any:
        """Return the state before the first update."""
        ...

    def update(self, gradient: FloatArray, state: Any, theta: FloatArray, /) -> tuple[Any, Any]:
        """Return what to add to ``theta``, (n_params,), and the new state."""
        ...


class AdamState(NamedTuple):
    """Moments of the gradient, each (n_params,), and the number of updates so far."""

    updates: int
    first: FloatArray
    second: FloatArray


@dataclass(frozen=True)
class Adam:
    """Adam (Kingma and Ba, 2015; T22), the optimizer that training uses by default.

    Parameters
    ----------
    learning_rate : size of the first step; a number, or a function of the number of updates so far.
    beta_1, beta_2 : decay of the mean and of the mean square of the gradient.
    epsilon : added to the root of the mean square.

    Examples
    --------
    >>> import numpy as np, noisyor as nor
    >>> adam = nor.learning.Adam(learning_rate=0.1)
    >>> move, state = adam.update(np.array([2.0, -5.0]), adam.init(np.ones(2)))
    >>> move.round(6), state.updates
    (array([-0.1,  0.1]), 1)
    """

    learning_rate: Rate = 1e-3
    beta_1: float = 0.9
    beta_2: float = 0.999
    epsilon: float = 1e-8

    def __post_init__(self) -> None:
        rules = {"beta_1": BELOW_ONE, "beta_2": BELOW_ONE, "epsilon": POSITIVE}
        check_settings(self, {"learning_rate": OPTIONS["learning_rate"].rule, **rules})

    def init(self, theta: FloatArray, /) -> AdamState:
        """Return the state before the first update of parameters ``theta``, (n_params,)."""
        return AdamState(0, np.zeros(np.shape(theta)), np.zeros(np.shape(theta)))

    def update(
        self, gradient: FloatArray, state: AdamState, theta: FloatArray | None = None, /
    ) -> tuple[FloatArray, AdamState]:
        """Return what to add to the parameters, (n_params,), and the new state."""
        updates = state.updates + 1
        first = self.beta_1 * state.first + (1 - self.beta_1) * gradient
        second = self.beta_2 * state.second + (1 - self.beta_2) * gradient**2
        size = -rate_at(self.learning_rate, state.updates) / (1 - self.beta_1**updates)
        move = size * first / (np.sqrt(second / (1 - self.beta_2**updates)) + self.epsilon)
        return move, AdamState(updates, first, second)


def rate_at(rate: Rate, step: int) -> float:
    """Return a learning rate after a number of updates."""
    if not callable(rate):
        return rate
    try:
        value = rate(step)
    except TypeError as error:
        raise InvalidSettingError(
            f"learning_rate is not a function of the step: {error}"
        ) from error
    if not is_finite(value) and getattr(value, "ndim", None) == 0:  # such as an array of JAX
        value = float(value)
    if not is_finite(value) or value < 0:
        raise InvalidSettingError(
            f"learning_rate must give a number of at least 0 for every step, got {value!r} "
            f"at step {step}"
        )
    return float(value)


def optimizer_key(optimizer: Optimizer) -> object:
    """Return the identity of an optimizer, which must be the same when a run resumes.

    For `Adam` and optimizers with a method ``settings`` it contains the settings, for others only
    the type.
    """
    if isinstance(optimizer, Adam):
        rate = rate_key(optimizer.learning_rate)
        return {"name": "Adam", **asdict(optimizer), "learning_rate": rate}
    settings = getattr(optimizer, "settings", None)
    kind = f"{type(optimizer).__module__}.{type(optimizer).__qualname__}"
    return {"name": kind, **(settings() if callable(settings) else {})}


def rate_key(rate: Rate) -> object:
    """Return the identity of a learning rate: the number, or some values of the function."""
    if not callable(rate):
        return float(rate)
    return [rate_at(rate, step) for step in (0, 1, 10, 100, 1000, 10000)]


def state_arrays(state: Any) -> list[Any]:
    """Return the numbers and arrays in the state of an optimizer, each with at least one axis."""
    if state is None:
        return []
    if isinstance(state, Mapping):
        state = [state[name] for name in sorted(state)]
    if isinstance(state, tuple | list):
        return [leaf for part in state for leaf in state_arrays(part)]
    array = np.asarray(state)
    if array.dtype.kind not in "biuf":
        raise InvalidSettingError(
            "a checkpoint needs an optimizer whose state is made of tuples, lists, dictionaries, "
            f"numbers and arrays, got {type(state).__name__}"
        )
    return [np.atleast_1d(array)]


def rebuild_state(template: Any, arrays: Iterator[Any]) -> Any:
    """Return a state with the structure of ``template`` and the arrays of `state_arrays`."""
    if template is None:
        return None
    if isinstance(template, Mapping):
        return {name: rebuild_state(template[name], arrays) for name in sorted(template)}
    if isinstance(template, tuple | list):
        parts = [rebuild_state(part, arrays) for part in template]
        return type(template)(*parts) if hasattr(template, "_fields") else type(template)(parts)
    array = next(arrays)
    return array.item() if isinstance(template, int | float) else array.reshape(np.shape(template))
