"""The NumPy engine: the functions of the contract, slow and readable, float64 throughout.

Read the modules in this order: `rows` (the evidence of a row), `log_joint`, `max_product`,
`mean_field`, `gibbs`, `joint_max_product`, `cover`. `anneal` has no reference here, because tests
compare its estimates with enumeration.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from noisyor.engines import contract
from noisyor.engines.numpy.cover import cover_memberships, improve_cover
from noisyor.engines.numpy.gibbs import gibbs_sweep, temper
from noisyor.engines.numpy.joint_max_product import joint_max_product
from noisyor.engines.numpy.log_joint import icm, log_joint, log_joint_gradient
from noisyor.engines.numpy.max_product import edge_messages, max_product
from noisyor.engines.numpy.mean_field import mean_field, mean_field_gradient
from noisyor.engines.numpy.rows import Prepared
from noisyor.engines.threads import resolve_threads
from noisyor.model.network import Network


@dataclass(frozen=True)
class NumpyEngine(contract.Engine):
    """The reference for other engines. See `noisyor.engines.contract.Engine`.

    ``n_threads`` is accepted because every engine has it, but this engine always uses one thread.

    Examples
    --------
    >>> import numpy as np, noisyor as nor
    >>> network = nor.bipartite(2, 1, failure_probability=0.1, prior_probability=0.3)
    >>> engine = nor.engines.NumpyEngine()
    >>> nor.explain(network, np.array([[1, 1], [0, 0]]), engine=engine).states.toarray()
    array([[1],
           [0]], dtype=uint8)
    """

    n_threads: int | None = None

    name: ClassVar[str] = "numpy"
    supports: ClassVar[frozenset[str]] = contract.FUNCTIONS - {"anneal"}

    def __post_init__(self) -> None:
        resolve_threads(self.n_threads)

    @property
    def workers(self) -> int:
        """One."""
        return 1

    def prepare(self, network: Network) -> Prepared:
        """Spread the parameters of the network over edges and nodes."""
        return Prepared(network)

    # The functions are those of this package; none needs the engine. Messages of single edges are
    # beyond the contract: no other engine keeps them.
    edge_messages = staticmethod(edge_messages)
    max_product = staticmethod(max_product)
    icm = staticmethod(icm)
    log_joint = staticmethod(log_joint)
    log_joint_gradient = staticmethod(log_joint_gradient)
    mean_field = staticmethod(mean_field)
    mean_field_gradient = staticmethod(mean_field_gradient)
    gibbs_sweep = staticmethod(gibbs_sweep)
    temper = staticmethod(temper)
    joint_max_product = staticmethod(joint_max_product)
    cover_memberships = staticmethod(cover_memberships)
    improve_cover = staticmethod(improve_cover)
