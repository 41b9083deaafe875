"""SciPy's sparse matrices, checked before its compiled code follows their indices."""

from __future__ import annotations

from typing import Any

import numpy as np

from noisyor._util.arrays import AnyArray
from noisyor.errors import InvalidDataError

__all__ = ["compressed_matrix", "csr_of", "dense_of"]

# What SciPy raises for arrays that do not fit together.
_FAULTS = (ValueError, TypeError, IndexError, OverflowError, AttributeError)


def compressed_matrix(
    kind: str, parts: tuple[AnyArray, AnyArray, AnyArray], shape: tuple[int, ...], where: object
) -> Any:
    """Return a ``csr_array`` or ``csc_array`` whose arrays have been checked completely.

    Parameters
    ----------
    kind : "csr" or "csc".
    parts : data (n_entries,), indices (n_entries,) and indptr (rows or columns + 1,).
    shape : rows and columns.
    where : names the matrix in errors.
    """
    from scipy import sparse

    builder = sparse.csr_array if kind == "csr" else sparse.csc_array
    try:
        matrix = builder(parts, shape=shape)
        matrix.check_format(full_check=True)
        if (matrix.indptr[1:] < matrix.indptr[:-1]).any():  # SciPy skips this if the last is 0
            raise ValueError("index pointers must not decrease")
    except _FAULTS as error:
        raise InvalidDataError(f"{where}: damaged or incomplete ({error})") from error
    return matrix


def csr_of(X: Any) -> Any:
    """Return a SciPy sparse matrix of any layout as ``csr_array`` without repeated entries.

    The caller's matrix is left unchanged; arrays are shared where nothing had to be changed.
    """
    if X.format in ("csr", "csc"):
        # A new object: flags of the caller's matrix may be stale.
        parts = (X.data, X.indices, X.indptr)
        csr = compressed_matrix(X.format, parts, X.shape, "the sparse matrix").tocsr()
    else:
        try:
            given = X.tocsr()
        except _FAULTS as error:
            raise InvalidDataError(f"the sparse matrix is not well formed: {error}") from error
        parts = (given.data, given.indices, given.indptr)
        csr = compressed_matrix("csr", parts, X.shape, "the sparse matrix")
    if not csr.has_canonical_format:
        csr = csr.copy()
        csr.sum_duplicates()
    return csr


def dense_of(X: Any) -> AnyArray:
    """Return a matrix as a NumPy array, whether it is sparse or not."""
    from scipy import sparse

    return np.asarray(csr_of(X).toarray() if sparse.issparse(X) else X)
