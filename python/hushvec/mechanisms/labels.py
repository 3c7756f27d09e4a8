"""Private answers from a list of labels."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from hushvec._native import _core
from hushvec.mechanisms.randomized_response import RandomizedResponse


def randomized_response(
    true_label: Any, labels: Sequence[Hashable], epsilon: float, *, generator: _core.Generator | None = None
) -> Any:
    """The true label with probability e^epsilon / (e^epsilon + k - 1), each of the k - 1 others with 1 / (e^epsilon + k - 1).

    Args:
        true_label: one label; or a list, tuple or numpy array of labels, each answered on its own. A tuple that is itself a label is
            one label. With `range(k)` also a torch tensor (CPU, CUDA) or a CuPy array of whole numbers.
        labels: the k possible labels, hashable and all different; public. `range(k)` for codes.
        epsilon: > 0, of each answer.
        generator: a `Generator`; None for the one of the process.

    Returns:
        A label for a label, a list for a list or tuple, an array of the same kind and shape for an array.

    Raises:
        TypeError: labels or a true label that is not hashable, an argument of the wrong kind.
        ValueError: a true label that is not in labels, duplicate labels, fewer than 2 or more than 2^24 of them, epsilon not > 0 and
            finite or below about k^2 / 2^64; a tensor with labels other than `range(k)`. Nothing is drawn then.
        RuntimeError: an array on CUDA that `RandomizedResponse.respond` refuses.

    Guarantees:
        (epsilon, 0)-DP for each answer under replace-one of that person's label, exact as sampled: the ratio of two probabilities is
        a ratio of whole numbers and at most e^epsilon (docs/proofs/randomized_response.md). Drawing an answer takes the same steps
        for the truth and for another label.

    Edge cases:
        Large epsilon (700 and more) is fine. An empty batch gives an empty one. What comes back are the objects in `labels`, never the
        caller's own true label, so that equal labels of other types (1 and 1.0) do not tell the truth from a random answer.

    Reference:
        Warner, "Randomized response" (1965), for two labels; Kairouz, Bonawitz, Ramage, "Discrete distribution estimation under local
        privacy" (2016), for k. `hushvec.mechanisms.randomized_response.RandomizedResponse` states cost and accuracy before anything
        is spent, and estimates frequencies from answers.

    Example:
        >>> import hushvec as hv
        >>> from hushvec.mechanisms.labels import randomized_response
        >>> generator = hv.Generator.unsafe_seeded(1)
        >>> randomized_response("spam", ["spam", "ham"], 2.0, generator=generator)
        'spam'
        >>> randomized_response(["spam"] * 5, ["spam", "ham", "unsure"], 1.0, generator=generator)
        ['unsure', 'spam', 'spam', 'unsure', 'spam']
    """
    return RandomizedResponse(epsilon=epsilon, labels=labels).respond(true_label, generator=generator)
