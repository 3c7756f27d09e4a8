"""What an attack has shown: the epsilon that counts of events prove, and the alpha that every attack here is judged at."""

import numpy as np
from scipy import stats

# A claim is called broken where what was seen has at most this probability if the claim holds, over all events that were tried.
# Seeds are fixed: a test always passes or never does.
ALPHA = 1e-6


def epsilon_shown(first, second, rows, *, delta=0.0, alpha=ALPHA):
    """The largest epsilon that the counts prove: each event and its complement, in both directions, Bonferroni over all of them.

    Args:
        first: counts of the events among outputs of one input, of `rows`.
        second: counts of the same events among outputs of its neighbour, of as many.

    Returns:
        The largest of ln((a - delta) / b), at least 0, with Clopper-Pearson bounds a from below and b from above. Events must have
        been fixed before these outputs were looked at.
    """
    first, second = np.atleast_1d(np.asarray(first, float)), np.atleast_1d(np.asarray(second, float))
    likelier = np.concatenate([first, second, rows - first, rows - second])
    other = np.concatenate([second, first, rows - second, rows - first])
    each = alpha / (2 * len(likelier))
    with np.errstate(divide="ignore", invalid="ignore"):
        least = np.where(likelier > 0, stats.beta.ppf(each, likelier, rows - likelier + 1), 0.0) - delta
        most = np.where(other < rows, stats.beta.ppf(1 - each, other + 1, rows - other), 1.0)
        return float(np.max(np.where(least > 0, np.log(np.maximum(least, 1e-300) / most), 0.0).clip(0.0)))


def counts(events, outputs):
    """How many of the outputs are in each event; an event is a function from outputs to truth values."""
    return [int(np.count_nonzero(event(outputs))) for event in events]
