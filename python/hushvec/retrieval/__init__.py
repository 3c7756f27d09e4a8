"""Retrieval by private vectors: an index with noise at every side, its utility, and the attacks that it has to withstand.

    from hushvec.retrieval import PrivateIndex, VectorNoise
    index = PrivateIndex(384, documents=VectorNoise(epsilon=16.0))
    index.add(embeddings)
    answer = index.search(queries, k=10)

docs/retrieval.md says which side protects whom. Stores other than "numpy" need extras of their own.
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
        "Estimate": "measures.intervals",
        "Evaluation": "evaluation",
        "InversionResult": "attacks.inversion",
        "MembershipResult": "attacks.membership",
        "PairedTest": "measures.paired",
        "PrivateIndex": "private_index",
        "PrivateQuery": "queries.private_query",
        "Question": "queries.question",
        "ScoreNoise": "noise",
        "SearchResult": "answers",
        "StoredDocument": "documents",
        "TunedEpsilon": "tuning",
        "VectorNoise": "noise",
        "compare": "measures.paired",
        "embedding_inversion": "attacks.inversion",
        "evaluate": "evaluation",
        "judge": "attacks.membership",
        "membership_auc_bound": "attacks.bounds",
        "membership_bound": "attacks.bounds",
        "membership_inference": "attacks.membership",
        "play": "attacks.shadows",
        "tune_epsilon": "tuning",
    },
)
