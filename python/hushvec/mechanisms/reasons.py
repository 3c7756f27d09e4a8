"""How `recommend` tells its choice: the sentences of `why`, and the rows of the table."""

from __future__ import annotations

from hushvec.mechanisms.candidates import TASKS, Option, Request, has_corpus, ranked_by

_ARE_THERE_PUBLIC_ROWS = (
    "Are there public rows of the same kind? Then a codebook of them may keep several times as much: "
    "give codebook=PublicCodebook.fit(public_rows, epsilon=...)."
)
_WHITEN_FIRST = (
    "Are there public rows of the same kind? Then whiten first: together with the split for n, this finds the same row more often "
    "than either alone. whitening = PublicProjection.fit(public_rows, components=m, whiten=True), m as large as they allow, and "
    "privatize(x, projection=whitening, mechanism=PrivUnit(epsilon={epsilon!r}, dimension=m, corpus_size={n}))."
)

def why(options: tuple[Option, ...], request: Request) -> str:
    best = options[0]
    sentences = [f"{best.name}: {_told(best, request)} at {_price(best.mechanism.cost)}{_next_best(options, request)}."]
    better = [option for option in options[1:] if option.mechanism is not None and option.merit > best.merit]
    if not best.claims_privacy:
        sentences.append("No option carries a claim: all are computed in floating point.")
    elif better:
        told = ", ".join(f"{option.name} would give {_told(option, request)}" for option in better)
        sentences.append(f"{told}, but is computed in floating point and carries no claim.")
    elif best.remark:
        sentences.append(f"{best.remark[0].upper()}{best.remark[1:]}.")
    if "codebook" in TASKS[request.task].takes and request.codebook is None and not has_corpus(request):
        sentences.append(_ARE_THERE_PUBLIC_ROWS)
    if has_corpus(request):
        sentences.append(_best_of_all(request))
    if has_corpus(request) and best.name == "privunit":
        sentences.append(_WHITEN_FIRST.format(epsilon=request.epsilon, n=request.n))
    return " ".join(sentences)


def _best_of_all(request: Request) -> str:
    """What no choice of a mechanism gets past."""
    from hushvec.mechanisms.top_1 import top_1_sentence

    assert request.n is not None
    bound = top_1_sentence(request.epsilon / request.rows_per_person, request.n + 1)
    return f"{bound[0].upper()}{bound[1:]}."


def _next_best(options: tuple[Option, ...], request: Request) -> str:
    behind = [option for option in options[1:] if option.claims_privacy and option.merit < options[0].merit]
    return f", against {_told(behind[0], request)} with {behind[0].name}" if behind and options[0].claims_privacy else ""


def _told(option: Option, request: Request) -> str:
    figure = ranked_by(request)
    return f"{figure} {option.figures[figure]:.3g}"


def _price(cost: tuple[float, float]) -> str:
    return f"epsilon = {_exact(cost[0])}, delta = {_exact(cost[1])}"


def _exact(cost: float) -> str:
    """All digits: a price is not rounded down."""
    return repr(float(cost)).removesuffix(".0")


def table_row(option: Option, figures: tuple[str, ...]) -> tuple[str, ...]:
    cost = ("", "") if option.mechanism is None else tuple(_exact(part) for part in option.mechanism.cost)
    values = (f"{option.figures[name]:.4g}" if name in option.figures else "" for name in figures)
    return (option.name, *cost, option.grade, *values, option.remark)
