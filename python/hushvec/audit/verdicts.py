"""What a lower bound on epsilon says about a claim, in plain words, for every result that has one."""

from __future__ import annotations

from hushvec._util.display import at_least, at_most, confidence_of

THIS_ATTACK = "an attack that fails proves nothing: a stronger one may succeed"


def bound_facts(claimed: float | None, delta: float, lower: float, ceiling: float, confidence: float) -> list[tuple[str, str]]:
    """Lines on what was claimed, what was proved, and what follows.

    Args:
        claimed: epsilon; None if nothing is claimed.
        lower: with probability `confidence` the true epsilon is no smaller.
        ceiling: the largest lower bound that these samples could have given.
    """
    return [
        ("claimed", "nothing" if claimed is None else f"epsilon {at_least(claimed)}, delta {at_least(delta)}"),
        ("proved", f"epsilon is at least {at_most(lower)}, with {confidence_of(confidence)} confidence"),
        ("verdict", _verdict(claimed, lower, ceiling)),
    ]


def _verdict(claimed: float | None, lower: float, ceiling: float) -> str:
    if claimed is None:
        return "there is no claim to refute"
    if lower > claimed:
        return "THE CLAIM IS REFUTED"
    if ceiling > claimed:
        return "the claim is not refuted, which does not prove it"
    return f"these samples could not have refuted the claim: they could prove at most epsilon {at_least(ceiling)}"
