"""Where the rows of an index lie and how they are looked up: six stores behind one protocol.

    name       rows lie in                      a search looks at
    flat       memory, FAISS IndexFlatIP        every row; the numpy store where FAISS is not installed
    numpy      memory                           every row
    hnsw       memory, FAISS IndexHNSWFlat      a walk through a graph
    ivf        memory, FAISS IndexIVFFlat       the cells nearest to the query
    lancedb    a LanceDB table in a folder      every row
    qdrant     a Qdrant collection in a folder  every row
"""

from hushvec.retrieval.stores.opening import CELLS, ON_DISK, STORES, WITH_A_MATRIX, open_store
from hushvec.retrieval.stores.protocol import DiskStore, MatrixStore, Store

__all__ = ["CELLS", "ON_DISK", "STORES", "WITH_A_MATRIX", "DiskStore", "MatrixStore", "Store", "open_store"]
