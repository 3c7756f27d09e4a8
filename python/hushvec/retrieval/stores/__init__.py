"""Where the rows of an index lie and how they are looked up: eight stores behind one protocol.

    name       rows lie in                      a search looks at
    flat       memory, FAISS IndexFlatIP        every row; the numpy store where FAISS is not installed
    numpy      memory                           every row
    hnsw       memory, FAISS IndexHNSWFlat      a walk through a graph
    ivf        memory, FAISS IndexIVFFlat       the cells nearest to the query
    lancedb    a LanceDB table in a folder      every row
    qdrant     a Qdrant collection in a folder  every row
    milvus     a Milvus Lite collection         every row
    pgvector   a table in PostgreSQL            every row, or a walk through a graph
"""

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
