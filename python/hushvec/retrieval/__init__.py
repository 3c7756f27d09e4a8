"""Retrieval by private vectors: an index with noise on documents, queries or scores, and its utility.

docs/retrieval.md says which side protects whom. Stores other than "numpy" need extras. Attacks are in hushvec.retrieval.attacks.
"""

from hushvec._util.lazy import at_first_use

with at_first_use(globals()):
    from hushvec._util.statistics import Estimate
    from hushvec.retrieval.attacks.bounds import membership_auc_bound, membership_bound
    from hushvec.retrieval.attacks.inversion import InversionResult, embedding_inversion
    from hushvec.retrieval.attacks.membership import MembershipResult, TunedEpsilon, judge, membership_inference, tune_epsilon
    from hushvec.retrieval.attacks.protection import ProtectionResult, protection
    from hushvec.retrieval.attacks.shadows import play
    from hushvec.retrieval.evaluation import Evaluation, evaluate
    from hushvec.retrieval.index.content import StoredDocument
    from hushvec.retrieval.index.private_index import PrivateIndex
    from hushvec.retrieval.index.searching import SearchResult
    from hushvec.retrieval.noise import ScoreNoise, VectorNoise
    from hushvec.retrieval.queries.private_query import PrivateQuery
    from hushvec.retrieval.queries.question import Candidates, Question

__all__ = [
    "Candidates", "Estimate", "Evaluation", "InversionResult", "MembershipResult", "PrivateIndex", "PrivateQuery",
    "ProtectionResult", "Question", "ScoreNoise", "SearchResult", "StoredDocument", "TunedEpsilon", "VectorNoise",
    "embedding_inversion", "evaluate", "judge", "membership_auc_bound", "membership_bound", "membership_inference", "play",
    "protection", "tune_epsilon",
]
