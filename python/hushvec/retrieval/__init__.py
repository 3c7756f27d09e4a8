"""Retrieval by private vectors: an index with noise on documents, queries or scores, and its utility.

docs/retrieval.md says which side protects whom. Stores other than "numpy" need extras. Attacks are in hushvec.audit.indexes.
"""

from typing import TYPE_CHECKING

from hushvec._util.lazy import at_first_use

if TYPE_CHECKING:
    from hushvec._util.statistics import Estimate
    from hushvec.audit.indexes.bounds import membership_auc_bound, membership_bound
    from hushvec.audit.indexes.inversion import InversionResult, embedding_inversion
    from hushvec.audit.indexes.membership import MembershipResult, TunedEpsilon, judge, membership_inference, tune_epsilon
    from hushvec.audit.indexes.shadows import play
    from hushvec.retrieval.evaluation import Evaluation, evaluate
    from hushvec.retrieval.index.content import StoredDocument
    from hushvec.retrieval.index.private_index import PrivateIndex
    from hushvec.retrieval.index.searching import SearchResult
    from hushvec.retrieval.noise import ScoreNoise, VectorNoise
    from hushvec.retrieval.queries.private_query import PrivateQuery
    from hushvec.retrieval.queries.question import Candidates, Question

__all__ = [
    "Candidates",
    "Estimate",
    "Evaluation",
    "InversionResult",
    "MembershipResult",
    "PrivateIndex",
    "PrivateQuery",
    "Question",
    "ScoreNoise",
    "SearchResult",
    "StoredDocument",
    "TunedEpsilon",
    "VectorNoise",
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
        "evaluation": "Evaluation evaluate",
        "hushvec._util.statistics": "Estimate",
        "hushvec.audit.indexes.bounds": "membership_auc_bound membership_bound",
        "hushvec.audit.indexes.inversion": "InversionResult embedding_inversion",
        "hushvec.audit.indexes.membership": "MembershipResult TunedEpsilon judge membership_inference tune_epsilon",
        "hushvec.audit.indexes.shadows": "play",
        "index.content": "StoredDocument",
        "index.private_index": "PrivateIndex",
        "index.searching": "SearchResult",
        "noise": "ScoreNoise VectorNoise",
        "queries.private_query": "PrivateQuery",
        "queries.question": "Candidates Question",
    },
)
