"""Studies of private retrieval: configurations, runs that survive interruption, tables, figures, and what they show.

Needs `pip install 'hushvec[study]'` where a study is read or run, not at import. docs/studies.md is the guide.
"""

from hushvec._util.lazy import at_first_use

__all__ = [
    "Configuration",
    "Corpus",
    "EmbeddingCache",
    "Finding",
    "ablations",
    "do_runs",
    "finding",
    "grid",
    "key_phrases",
    "load_configuration",
    "load_corpus",
    "planned",
    "robustness",
    "shipped",
]

__getattr__, __dir__ = at_first_use(
    globals(),
    {
        "Configuration": "schema",
        "Corpus": "corpora",
        "EmbeddingCache": "embedding_cache",
        "Finding": "findings",
        "ablations": "plan",
        "do_runs": "runs",
        "finding": "findings",
        "grid": "plan",
        "key_phrases": "key_phrases",
        "load_configuration": "configuration",
        "load_corpus": "corpora",
        "planned": "plan",
        "robustness": "plan",
        "shipped": "configuration",
    },
)
