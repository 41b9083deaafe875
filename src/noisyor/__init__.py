"""noisyor: learn noisy-OR Bayesian networks from binary data, and explain data with them.

    import noisyor as nor

    network = nor.initialize(nor.bipartite(n_visible=64, n_hidden=16), noise="uniform")
    result = nor.train(network, X, steps=10_000)
    posterior = nor.explain(result.network, X_new)

Names are imported on first use, so that ``import noisyor`` costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from noisyor._version import __version__

if TYPE_CHECKING:
    from noisyor.data.observations import Observations
    from noisyor.diagnosis.diseases import diagnose, disease_network
    from noisyor.errors import (
        CheckpointError,
        DatasetNotFoundError,
        InvalidDataError,
        InvalidNetworkError,
        InvalidSettingError,
        MissingExtraError,
        ModelFileError,
        NoisyOrError,
        UnsupportedDataError,
    )
    from noisyor.estimators import (
        BlindDeconvolution,
        BooleanMatrixFactorization,
        NoisyOrNetwork,
        TopicModel,
    )
    from noisyor.inference.evaluate import EvaluationResult, evaluate
    from noisyor.inference.evidence import (
        EvidenceBound,
        EvidenceEstimate,
        estimate_evidence,
        evidence_bound,
    )
    from noisyor.inference.exact import ExactPosterior, enumerate_posterior
    from noisyor.inference.explain import explain
    from noisyor.inference.joint_max_product import Factorization, JointMaxProduct
    from noisyor.inference.marginals import Marginals, marginals
    from noisyor.inference.max_product import MaxProduct
    from noisyor.inference.mean_field import MeanField
    from noisyor.inference.objective import elbo_mp, elbo_mp_gradient, log_joint
    from noisyor.inference.posterior import Posterior
    from noisyor.io.export import export_network
    from noisyor.io.model_file import load_network, save_network
    from noisyor.io.networkx import from_networkx, to_networkx
    from noisyor.learning.gibbs_em import learn_by_gibbs
    from noisyor.learning.initialize import initialize
    from noisyor.learning.phases import PhasedRun, train_hybrid
    from noisyor.learning.pruning import prune_hidden
    from noisyor.learning.recipes import (
        FitResult,
        learn_factors,
        learn_features,
        learn_network,
        learn_topics,
    )
    from noisyor.learning.state import TrainingResult
    from noisyor.learning.stream import train_stream
    from noisyor.learning.train import train
    from noisyor.network.builders import bipartite, convolutional, from_edges
    from noisyor.network.cooccurrence import layered
    from noisyor.network.forward import sample, visible_probability
    from noisyor.network.graph import Network
    from noisyor.search.factors import FoundFactors, search_factors
    from noisyor.search.memberships import cover_rows
    from noisyor.tables import ReadOptions, Table, read_table

_HOME = {
    "BlindDeconvolution": "estimators",
    "BooleanMatrixFactorization": "estimators",
    "CheckpointError": "errors",
    "DatasetNotFoundError": "errors",
    "EvaluationResult": "inference.evaluate",
    "EvidenceBound": "inference.evidence",
    "EvidenceEstimate": "inference.evidence",
    "ExactPosterior": "inference.exact",
    "Factorization": "inference.joint_max_product",
    "FitResult": "learning.recipes",
    "FoundFactors": "search.factors",
    "InvalidDataError": "errors",
    "InvalidNetworkError": "errors",
    "InvalidSettingError": "errors",
    "JointMaxProduct": "inference.joint_max_product",
    "Marginals": "inference.marginals",
    "MaxProduct": "inference.max_product",
    "MeanField": "inference.mean_field",
    "MissingExtraError": "errors",
    "ModelFileError": "errors",
    "Network": "network.graph",
    "NoisyOrError": "errors",
    "NoisyOrNetwork": "estimators",
    "Observations": "data.observations",
    "PhasedRun": "learning.phases",
    "Posterior": "inference.posterior",
    "ReadOptions": "tables",
    "Table": "tables",
    "TopicModel": "estimators",
    "TrainingResult": "learning.state",
    "UnsupportedDataError": "errors",
    "bipartite": "network.builders",
    "convolutional": "network.builders",
    "cover_rows": "search.memberships",
    "diagnose": "diagnosis.diseases",
    "disease_network": "diagnosis.diseases",
    "elbo_mp": "inference.objective",
    "elbo_mp_gradient": "inference.objective",
    "enumerate_posterior": "inference.exact",
    "estimate_evidence": "inference.evidence",
    "evaluate": "inference.evaluate",
    "evidence_bound": "inference.evidence",
    "explain": "inference.explain",
    "export_network": "io.export",
    "from_edges": "network.builders",
    "from_networkx": "io.networkx",
    "initialize": "learning.initialize",
    "layered": "network.cooccurrence",
    "learn_by_gibbs": "learning.gibbs_em",
    "learn_factors": "learning.recipes",
    "learn_features": "learning.recipes",
    "learn_network": "learning.recipes",
    "learn_topics": "learning.recipes",
    "load_network": "io.model_file",
    "log_joint": "inference.objective",
    "marginals": "inference.marginals",
    "prune_hidden": "learning.pruning",
    "read_table": "tables",
    "sample": "network.forward",
    "save_network": "io.model_file",
    "to_networkx": "io.networkx",
    "search_factors": "search.factors",
    "train": "learning.train",
    "train_hybrid": "learning.phases",
    "train_stream": "learning.stream",
    "visible_probability": "network.forward",
}

__all__ = [
    "BlindDeconvolution",
    "BooleanMatrixFactorization",
    "CheckpointError",
    "DatasetNotFoundError",
    "EvaluationResult",
    "EvidenceBound",
    "EvidenceEstimate",
    "ExactPosterior",
    "Factorization",
    "FitResult",
    "FoundFactors",
    "InvalidDataError",
    "InvalidNetworkError",
    "InvalidSettingError",
    "JointMaxProduct",
    "Marginals",
    "MaxProduct",
    "MeanField",
    "MissingExtraError",
    "ModelFileError",
    "Network",
    "NoisyOrError",
    "NoisyOrNetwork",
    "Observations",
    "PhasedRun",
    "Posterior",
    "ReadOptions",
    "Table",
    "TopicModel",
    "TrainingResult",
    "UnsupportedDataError",
    "__version__",
    "bipartite",
    "convolutional",
    "cover_rows",
    "diagnose",
    "disease_network",
    "elbo_mp",
    "elbo_mp_gradient",
    "enumerate_posterior",
    "estimate_evidence",
    "evaluate",
    "evidence_bound",
    "explain",
    "export_network",
    "from_edges",
    "from_networkx",
    "initialize",
    "layered",
    "learn_by_gibbs",
    "learn_factors",
    "learn_features",
    "learn_network",
    "learn_topics",
    "load_network",
    "log_joint",
    "marginals",
    "prune_hidden",
    "read_table",
    "sample",
    "save_network",
    "search_factors",
    "to_networkx",
    "train",
    "train_hybrid",
    "train_stream",
    "visible_probability",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'noisyor' has no attribute {name!r}")
    value = getattr(import_module(f"noisyor.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
