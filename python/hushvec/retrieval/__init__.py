"""Retrieval by private vectors: an index with noise on documents, queries or scores, its utility, and attacks that test its privacy.

    from hushvec.retrieval import PrivateIndex, VectorNoise
    index = PrivateIndex(384, documents=VectorNoise(epsilon=16.0))
    index.add(embeddings)
    answer = index.search(queries, k=10)

docs/retrieval.md says which side protects whom. Stores other than "numpy" need extras. The attacks are in hushvec.audit.indexes.
"""

from hushvec._util.lazy import at_first_use

__all__ = [
    "Candidates",
    "Estimate",
    "Evaluation",
    "InversionResult",
    "MembershipResult",
    "PairedTest",
    "PrivateIndex",
    "PrivateQuery",
    "Question",
    "ScoreNoise",
    "SearchResult",
    "StoredDocument",
    "TunedEpsilon",
    "VectorNoise",
    "compare",
    "embedding_inversion",
    "evaluate",
    "judge",
    "membership_auc_bound",
    "membership_bound",
    "membership_inference",
    "play",
    "tune_epsilon",
]

__getattr__, __dir__ = at_first_use(
    globals(),
    {
        "Candidates": "queries.question",
        "Estimate": "hushvec._util.statistics",
        "Evaluation": "evaluation",
        "InversionResult": "hushvec.audit.indexes.inversion",
        "MembershipResult": "hushvec.audit.indexes.membership",
        "PairedTest": "measures.paired",
        "PrivateIndex": "index.private_index",
        "PrivateQuery": "queries.private_query",
        "Question": "queries.question",
        "ScoreNoise": "noise",
        "SearchResult": "index.answers",
        "StoredDocument": "index.documents",
        "TunedEpsilon": "hushvec.audit.indexes.tuning",
        "VectorNoise": "noise",
        "compare": "measures.paired",
        "embedding_inversion": "hushvec.audit.indexes.inversion",
        "evaluate": "evaluation",
        "judge": "hushvec.audit.indexes.membership",
        "membership_auc_bound": "hushvec.audit.indexes.bounds",
        "membership_bound": "hushvec.audit.indexes.bounds",
        "membership_inference": "hushvec.audit.indexes.membership",
        "play": "hushvec.audit.indexes.shadows",
        "tune_epsilon": "hushvec.audit.indexes.tuning",
    },
)
