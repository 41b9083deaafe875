"""Compare correct mean-field with a variant in which padded parents are on, as in the paper.

    python benchmarks/mean_field_phantom.py --problem bmf --n 100 --r 20 --variant correct
    python benchmarks/mean_field_phantom.py --problem bd --data DIR --variant phantom

The paper reports that mean-field collapses on the larger of these problems. The authors' public
software pads lists of parents. If a padded entry is read as a parent, it is the leak node, which is
always on and has the noise as its parameter. ``--variant phantom`` trains this way: every node has
as many parents as the node with most parents, and the additional parents are on, with parameter
theta^x and Jensen weight 1e-5. ``--variant correct`` is the library's mean-field. Everything else
follows the paper's protocol: 40,000 steps of 20 rows at rate 1e-3, or 3,000 full-batch steps at
0.01.

Each run is added to the JSON file ``--json`` as soon as it is finished. Runs that are already in
the file are skipped, and an interrupted run continues. With several seeds, or without
``--variant``, runs follow one another. ``phantom_elbo_vi`` is the bound that the padded software
would print for the learned parameters, ``elbo_vi`` the true bound.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

import _root  # noqa: F401
import noisyor as nor
from noisyor._util.files import write_atomically
from noisyor.data.observations import Observations
from noisyor.datasets.synthetic import generate_bmf
from noisyor.engines.contract import EngineLike, Evidence, GradientSum, MeanFieldResult
from noisyor.engines.numba.arguments import pack
from noisyor.engines.numba.engine import Prepared
from noisyor.engines.registry import get_engine
from noisyor.inference.method import Bounds, Method, Posterior
from noisyor.metrics import (
    factorization_error,
    features_iou,
    reconstruct_images,
    reconstruction_error,
    threshold_features,
)
from noisyor.model.network import Network
from reproduction.one_layer import trivial_metrics

PHANTOM_R = 1e-5
"""Jensen weight of an edge that does not exist: the floor at which the software reads it."""


@dataclass(frozen=True)
class PhantomMeanField(Method):
    """Mean-field of a two-layer network in which padded parents are on.

    A phantom parent adds ``-theta^x`` to the term of an inactive node and, with u = leak + theta^x
    / r, ``r {f(u) - f(leak)}`` to the term of an active one. Only the tables that the kernels read
    change, not the kernels.
    """

    name: ClassVar[str] = "mean-field with phantom parents"

    method: nor.MeanField

    def prepared(self, network: Network) -> Prepared:
        """Return the network with phantoms in its tables."""
        if network.n_layers != 1:
            raise ValueError("phantoms are for networks of one hidden layer")
        prepared = Prepared(network)
        tables, counts = prepared.mean_field.tables.values, np.diff(network.child_ptr)
        missing = (counts.max() - counts).astype(np.float64)
        noise = float(network.theta_of("noise").ravel()[0])
        u = tables.leak + noise / PHANTOM_R
        gain = PHANTOM_R * (_f(u) - _f(tables.leak))
        first = network.n_visible  # hidden nodes: none has a parent of its own
        slope = tables.slope.copy()
        slope[first:] *= 1.0 - PHANTOM_R * missing[first:]
        prepared.mean_field.tables = pack(
            tables._replace(
                log_odds=tables.log_odds + missing * (noise + gain),
                slope=slope,
                total_leak=tables.total_leak + float(missing.sum()) * noise,
            )
        )
        return prepared

    def settings(self) -> dict[str, object]:
        return {**self.method.settings(), "method": self.name}

    def gradient(
        self,
        network: Network,
        observations: Observations,
        *,
        seed: int,
        step: int,
        engine: EngineLike = "auto",
    ) -> GradientSum:
        return get_engine(engine).mean_field_gradient(
            self.prepared(network), Evidence.of(network, observations), self.method._options()
        )

    def bounds(
        self,
        network: Network,
        observations: Observations,
        *,
        engine: EngineLike = "auto",
        progress: bool | None = False,
    ) -> Bounds:
        found = self._found(network, observations, engine)
        states = (found.q >= 0.5).astype(np.uint8)
        return Bounds(nor.inference.log_joint(network, states, observations), found.elbo)

    def states(self, network: Network, observations: Observations) -> npt.NDArray[np.uint8]:
        """Return the causes that are on (q >= 1/2), shape (n_rows, n_hidden)."""
        return (self._found(network, observations, "auto").q >= 0.5).astype(np.uint8)

    def _found(
        self, network: Network, observations: Observations, engine: EngineLike
    ) -> MeanFieldResult:
        evidence = Evidence.of(network, observations)
        return get_engine(engine).mean_field(
            self.prepared(network), evidence, self.method._options(), with_q=True
        )

    def infer(self, *_: Any, **__: Any) -> Posterior:
        raise NotImplementedError("training does not ask for it")


def _f(b: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return np.log(-np.expm1(-b))


class Task(NamedTuple):
    """Data, the network to train, and the training settings."""

    network: Network
    train: Observations
    test: npt.NDArray[np.uint8]
    steps: int
    batch_size: int | None
    learning_rate: float
    features: npt.NDArray[Any] | None


def bmf_task(n: int, r: int, init: str, seed: int) -> Task:
    data = generate_bmf(n, r, seed)
    network = nor.bipartite(n, r, prior="shared", fixed=("noise",))
    network = nor.initialize(network, init, noise="uniform", seed=seed)
    return Task(network, Observations.of(data.train), data.test, 40_000, 20, 1e-3, None)


def bd_task(data: Path, init: str, seed: int) -> Task:
    with np.load(data / "conv_problem.npz") as archive:
        images, features = archive["X"][:, 0].astype(np.uint8), archive["W"][0]
    train, test = Observations.of(images).split(0.8, seed)
    network = nor.convolutional((14, 14), 5, (6, 6), fixed=("noise",))
    network = nor.initialize(network, init, noise="uniform", seed=seed)
    held_out = test.to_dense().reshape(-1, 14, 14).astype(np.uint8)
    return Task(network, train, held_out, 3_000, None, 0.01, features)


def scores(task: Task, network: Network, published: nor.MeanField) -> dict[str, float]:
    """Return bounds and errors of the test rows, by the correct E-step and by the phantom one."""
    test = Observations.of(task.test)
    correct = nor.explain(network, test, published)
    assert correct.elbo_vi is not None
    assert correct.q is not None
    phantom = PhantomMeanField(published)
    phantom_states = phantom.states(network, test)
    trivial = trivial_metrics(task.test)
    result = {
        "elbo_vi": float(correct.elbo_vi.mean()),
        "elbo_mp_of_mode": float(correct.log_joint.mean()),
        "reconstruction_error_pct": _error(task, network, correct.states.toarray()),
        "phantom_elbo_vi": float(phantom.bounds(network, test).elbo.mean()),
        "phantom_elbo_mp_of_mode": float(
            nor.inference.log_joint(network, phantom_states, test).mean()
        ),
        "phantom_reconstruction_error_pct": _error(task, network, phantom_states),
        "mean_q": float(correct.q.mean()),
        "elbo_mp": float(nor.evaluate(network, test, nor.MaxProduct()).elbo_mp.mean),
        "trivial_elbo": trivial["trivial_elbo"],
        "trivial_reconstruction_error_pct": trivial["trivial_re_pct"],
    }
    if task.features is not None:
        learned = threshold_features(network.theta_of("failure"))
        result["features_iou"] = float(features_iou(learned, task.features))
    return result


def _error(task: Task, network: Network, states: npt.NDArray[np.uint8]) -> float:
    if task.features is None:
        return factorization_error(network, states, task.test)
    return reconstruction_error(reconstruct_images(network, states), task.test)


def runs_of(file: Path) -> dict[str, Any]:
    """Return the runs in a file by name."""
    found: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    return found


def run(given: argparse.Namespace, variant: str, seed: int) -> None:
    """Run once, unless the run is already in the file."""
    size = f"n{given.n}-r{given.r}" if given.problem == "bmf" else "14x14"
    steps_note = "" if given.steps is None else f"-{given.steps}steps"
    name = f"{given.problem}-{size}-{variant}-{given.init}-seed{seed}{steps_note}"
    if name in runs_of(given.json):
        print(f"{name}: there already")
        return
    task = (
        bmf_task(given.n, given.r, given.init, seed)
        if given.problem == "bmf"
        else bd_task(given.data, given.init, seed)
    )
    steps = task.steps if given.steps is None else given.steps
    schedule = nor.MeanField(tolerance=given.tolerance)
    method = PhantomMeanField(schedule) if variant == "phantom" else schedule
    began = time.perf_counter()
    course: list[dict[str, float]] = []

    def watch(info: Any) -> None:
        if given.every and info.state.step % given.every == 0:
            point = scores(task, info.network, schedule)
            course.append({"step": info.state.step, "train_bound": info.elbo, **point})
            print(f"{name} step {info.state.step}: {json.dumps(point)}", flush=True)

    checkpoint = given.json.with_name(f".phantom-{name}.checkpoint")
    result = nor.train(
        task.network,
        task.train,
        method,
        steps=steps,
        batch_size=task.batch_size,
        learning_rate=task.learning_rate,
        seed=seed,
        callbacks=[watch],
        checkpoint=checkpoint,
        resume=True,
        engine=get_engine(n_threads=given.threads),
        progress=None,
    )
    content = {
        "problem": given.problem,
        "n": given.n if given.problem == "bmf" else None,
        "r": given.r if given.problem == "bmf" else None,
        "variant": variant,
        "init": given.init,
        "seed": seed,
        "steps": steps,
        "tolerance": given.tolerance,
        "seconds_of_updates": float(result.history.seconds.sum()),
        "seconds": time.perf_counter() - began,
        "train_bound_last_100_steps": float(result.history.elbo[-100:].mean()),
        "test": scores(task, result.network, nor.MeanField()),
        "course": course,
    }
    runs = runs_of(given.json) | {name: content}
    write_atomically(given.json, (json.dumps(runs, indent=1) + "\n").encode())
    checkpoint.unlink(missing_ok=True)
    print(f"{name}: {json.dumps(content['test'])}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--problem", choices=["bmf", "bd"], default="bmf")
    parser.add_argument("--n", type=int, default=100)
    parser.add_argument("--r", type=int, default=20)
    parser.add_argument("--steps", type=int, help="number of steps (default: the paper's)")
    parser.add_argument("--seed", type=int, nargs="+", default=[0])
    parser.add_argument("--variant", choices=["correct", "phantom"], help="variant (default: both)")
    parser.add_argument("--init", default="paper-3")
    parser.add_argument(
        "--tolerance", type=float, help="stop rows early; default: published schedule"
    )
    parser.add_argument(
        "--every", type=int, default=0, help="also score after these numbers of steps"
    )
    parser.add_argument("--threads", type=int)
    parser.add_argument("--data", type=Path, help="directory of conv_problem.npz, for bd")
    parser.add_argument("--json", type=Path, default=Path("results/phantom.json"))
    given = parser.parse_args()
    if given.problem == "bd" and given.data is None:
        parser.error("bd needs --data DIR")
    for seed in given.seed:
        for variant in [given.variant] if given.variant else ["correct", "phantom"]:
            run(given, variant, seed)


if __name__ == "__main__":
    main()
