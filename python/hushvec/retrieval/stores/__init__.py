"""Where the rows of an index lie and how they are looked up: eight stores behind one protocol (docs/retrieval.md)."""

from hushvec.retrieval.stores.protocol import (
    BEHIND_AN_ADDRESS,
    CELLS,
    ON_DISK,
    STORES,
    WITH_A_MATRIX,
    DiskStore,
    MatrixStore,
    RowStore,
    Store,
    open_store,
    shown,
)

__all__ = [
    "BEHIND_AN_ADDRESS",
    "CELLS",
    "ON_DISK",
    "STORES",
    "WITH_A_MATRIX",
    "DiskStore",
    "MatrixStore",
    "RowStore",
    "Store",
    "open_store",
    "shown",
]
