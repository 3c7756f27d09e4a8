"""`hushvec sigma`: the Gaussian mechanism as a calculator, in all three directions."""

from __future__ import annotations

import math
from typing import Any

from hushvec._util import validate
from hushvec.cli._output import answered, facts
from hushvec.cli._parser import Command, option
from hushvec.mechanisms import rounded_up
from hushvec.noise import expected_cosine, gaussian_delta, gaussian_epsilon, gaussian_sigma

SHOWN_DIGITS = 8


class Sigma(Command, name="sigma", examples=(
    ("the noise for epsilon 8 at delta 1e-5", "hushvec sigma --epsilon 8"),
    (
        "what a sigma that you already use is worth, and what it leaves of 384 elements",
        "hushvec sigma --sigma 0.2 --delta 1e-6 --dimension 384",
    ),
)):
    """Two of --epsilon, --delta and --sigma give the third (Balle and Wang 2018, theorem 8).
    With --epsilon alone, delta is 1e-5. The sensitivity is 2 clip_norm: a vector of norm at most
    clip_norm replaced by another one."""

    epsilon: float | None = option("of one release")
    delta: float | None = option("of one release (default 1e-5 with --epsilon alone)")
    sigma: float | None = option("standard deviation of the noise on every element")
    clip_norm: float | None = option("L2 norm that vectors are clipped to (default 1)", alone="size")
    sensitivity: float | None = option("L2 sensitivity itself, instead of --clip-norm", alone="size")
    dimension: int | None = option("also print the cosine to expect in D dimensions", metavar="D")

    def run(self) -> int:
        if self.sensitivity is not None:
            sensitivity = validate.positive("sensitivity", self.sensitivity)
            clip_norm = sensitivity / 2
        else:
            clip_norm = validate.positive("clip_norm", 1.0 if self.clip_norm is None else self.clip_norm)
            sensitivity = 2 * clip_norm
        computed, epsilon, delta, sigma = _solve(self.epsilon, self.delta, self.sigma, sensitivity)
        answer: dict[str, Any] = dict(epsilon=epsilon, delta=delta, sigma=sigma, sensitivity=sensitivity, clip_norm=clip_norm)
        if self.dimension is not None:
            validate.whole_number("dimension", self.dimension, at_least=1)
            answer["dimension"] = self.dimension
            answer["expected_cosine"] = expected_cosine(sigma, self.dimension, clip_norm)
            answer["noise_norm"] = sigma * math.sqrt(self.dimension)
        if epsilon > 0 and delta < 1:
            classical = float(gaussian_sigma(epsilon, delta, sensitivity, method="classical", allow_unproven=True))
            answer["classical_sigma"] = classical
            answer["classical_delta"] = gaussian_delta(epsilon, classical, sensitivity)
        return answered(self, answer, facts(_lines(answer, computed)))


def _solve(epsilon: float | None, delta: float | None, sigma: float | None, sensitivity: float) -> tuple[str, float, float, float]:
    """Return (name of the one that was computed, epsilon, delta, sigma)."""
    if delta is None and (epsilon is None) != (sigma is None):
        delta = 1e-5
    if epsilon is not None and delta is not None and sigma is None:
        return "sigma", epsilon, delta, float(gaussian_sigma(epsilon, delta, sensitivity))
    if sigma is not None and delta is not None and epsilon is None:
        found = float(gaussian_epsilon(delta, sigma, sensitivity))
        if not math.isfinite(found):
            raise ValueError(f"sigma must be large enough for a finite epsilon, got {sigma!r}")
        return "epsilon", found, delta, sigma
    if sigma is not None and epsilon is not None and delta is None:
        return "delta", epsilon, float(gaussian_delta(epsilon, sigma, sensitivity)), sigma
    raise ValueError("two of --epsilon, --delta and --sigma must be given, the third is computed")


def _lines(answer: dict[str, Any], computed: str) -> list[tuple[str, str]]:
    # What was computed is rounded up, so the printed digits are never less than it.
    up = f"{rounded_up(answer[computed], SHOWN_DIGITS):.{SHOWN_DIGITS}g}"
    lines = [
        *((name, up if name == computed else repr(answer[name])) for name in ("epsilon", "delta", "sigma")),
        ("sensitivity", f"{answer['sensitivity']:.6g} (L2, replace one vector of norm at most {answer['clip_norm']:.6g})"),
    ]
    if "dimension" in answer:
        cosine = f"{answer['expected_cosine']:.4f} in {answer['dimension']} dimensions; noise norm {answer['noise_norm']:.4g}"
        lines.append(("expected cosine", cosine))
    if "classical_sigma" in answer:
        verdict = "enough" if answer["classical_delta"] <= answer["delta"] else "NOT enough"
        given = f"actually gives delta = {answer['classical_delta']:.3g}: {verdict}"
        lines.append(("classical sigma", f"{answer['classical_sigma']:.6g}, which {given}"))
    return lines
