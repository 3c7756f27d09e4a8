"""Everything that is measured of a list of outputs, as the columns of one row of results."""

import numpy as np

from hushvec_studies.rewriting import metrics, results


def columns(documents, outputs, judges, seed):
    """Leak, similarity by each judge, how often an output is nearer to its own input than to another's, and length."""
    row = {"n": len(documents)} | leak(documents, outputs, seed)
    for judge in judges:
        made, given = judge(outputs[: judge.documents]), judge([one.text for one in documents[: judge.documents]])
        row |= results.columns(f"similarity_{judge.name}", metrics.mean(metrics.cosines(made, given)))
        row |= results.columns(f"nearer_{judge.name}", metrics.mean(metrics.won_against_others(made, given, seed)))
    lengths = [metrics.length_ratio(one.text, output) for one, output in zip(documents, outputs, strict=True)]
    return row | results.columns("length_ratio", metrics.mean(lengths))


def leak(documents, outputs, seed):
    row = {}
    for name in ("gold", "identifying"):
        strings = [getattr(one, name) for one in documents]
        hits = [metrics.leaked(output, own) for output, own in zip(outputs, strings, strict=True)]
        row |= results.columns(
            "leak" if name == "gold" else "leak_identifying", metrics.share(hits, [len(own) for own in strings], seed)
        )
    return row


def strangers(outputs, seed):
    """The same outputs, each given to another document: what similarity and leak are by chance."""
    places = np.arange(len(outputs)) + np.random.default_rng(seed).integers(1, len(outputs))
    return [outputs[place % len(outputs)] for place in places]


def best_choices(documents, corpus_texts, judge):
    """For each document the public text that this judge finds most alike: no choice among them can do better by its measure."""
    return [corpus_texts[best] for best in (judge([one.text for one in documents]) @ judge(list(corpus_texts)).T).argmax(axis=1)]
