"""A noisy-OR network of diseases and findings without the ontology, as in QMR.

A disease causes a finding with the frequency that the annotations state. Everything that the
annotations do not state is an argument: the prior of each disease, the probability of a finding
without any disease, and the frequency where none is given. All functions of noisyor apply to the
network, and naive Bayes on it is a baseline for the model with the ontology.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from noisyor import Network, from_edges
from noisyor.errors import InvalidSettingError
from noisyor_hpo.annotations import Annotations

__all__ = ["disease_network"]


def disease_network(
    data: Annotations,
    *,
    finding_names: Mapping[str, str] | None = None,
    prior_probability: npt.ArrayLike = 1e-4,
    noise_probability: npt.ArrayLike = 1e-4,
    unknown_frequency: float = 0.5,
    highest_frequency: float = 0.98,
) -> Network:
    """Build a two-layer network of diseases (hidden) and findings (visible) from annotations.

    Pairs with frequency 0 have no edge, and diseases without any edge are left out.

    Parameters
    ----------
    data : annotations of `read_annotations`.
    finding_names : names of findings by identifier, for example
        ``dict(zip(ontology.terms, ontology.names))``. A finding without a name keeps its
        identifier.
    prior_probability : prior of each disease, scalar or (n_diseases,). An assumption.
    noise_probability : probability of a finding without any of the diseases, scalar or
        (n_findings,). An assumption: the default gives every patient about one unrelated finding.
    unknown_frequency : frequency of a finding where the annotations state none.
    highest_frequency : upper bound of frequencies, because a finding may be overlooked.

    Returns
    -------
    Network with hidden names such as ``"Marfan syndrome (OMIM:154700)"``.

    Examples
    --------
    >>> import numpy as np, noisyor as nor, noisyor_hpo
    >>> rows = nor.Observations.from_indices([[0, 1]], 2, column_names=["HP:1", "HP:2"])
    >>> data = noisyor_hpo.Annotations("2025", rows, ("D:1",), ("flu",), np.array([0.8, np.nan]))
    >>> network = noisyor_hpo.disease_network(data, finding_names={"HP:1": "fever"})
    >>> network.hidden_names, network.visible_names
    (('flu (D:1)',), ('fever', 'HP:2'))
    """
    for name, value in [
        ("unknown_frequency", unknown_frequency),
        ("highest_frequency", highest_frequency),
    ]:
        if not 0 < value < 1:
            raise InvalidSettingError(f"{name} lies strictly between 0 and 1, got {value!r}")
    rows = data.observations
    frequency = np.where(np.isnan(data.frequency), unknown_frequency, data.frequency)
    disease = np.repeat(np.arange(rows.n_rows), np.diff(rows.ptr))
    kept = frequency > 0
    diseases, parent = np.unique(disease[kept], return_inverse=True)
    prior = np.broadcast_to(np.asarray(prior_probability, dtype=np.float64), (rows.n_rows,))
    identifiers = rows.column_names or tuple(str(i) for i in range(rows.n_visible))
    names = finding_names or {}
    return from_edges(
        rows.n_visible,
        len(diseases),
        np.stack([parent, rows.columns[rows.ptr[0] : rows.ptr[-1]][kept]], axis=1),
        failure_probability=1.0 - np.minimum(frequency[kept], highest_frequency),
        prior_probability=prior[diseases],
        noise_probability=noise_probability,
        visible_names=[names.get(finding, finding) for finding in identifiers],
        hidden_names=[f"{data.disease_names[d]} ({data.disease_ids[d]})" for d in diseases],
    )
