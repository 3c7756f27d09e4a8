"""`hushvec sigma`: the Gaussian mechanism as a calculator, in all three directions."""

from __future__ import annotations

import argparse
import math
from typing import Any

from hushvec._util import validate
from hushvec.cli._arguments import Subparsers, add_command
from hushvec.cli._output import facts, print_json
from hushvec.mechanisms import rounded_up
from hushvec.noise.calibration import expected_cosine, gaussian_delta, gaussian_epsilon, gaussian_sigma

SHOWN_DIGITS = 8


def add_to(subparsers: Subparsers) -> None:
    parser = add_command(
        subparsers,
        "sigma",
        run,
        description=(
            "Two of --epsilon, --delta and --sigma give the third (Balle and Wang 2018, theorem 8).\n"
            "With --epsilon alone, delta is 1e-5. The sensitivity is 2 clip_norm: a vector of norm at most\n"
            "clip_norm replaced by another one."
        ),
        examples=(
            ("the noise for epsilon 8 at delta 1e-5", "hushvec sigma --epsilon 8"),
            (
                "what a sigma that you already use is worth, and what it leaves of 384 elements",
                "hushvec sigma --sigma 0.2 --delta 1e-6 --dimension 384",
            ),
        ),
    )
    parser.add_argument("--epsilon", type=float, help="of one release")
    parser.add_argument("--delta", type=float, help="of one release (default 1e-5 with --epsilon alone)")
    parser.add_argument("--sigma", type=float, help="standard deviation of the noise on every element")
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--clip-norm", type=float, help="L2 norm that vectors are clipped to (default 1)")
    size.add_argument("--sensitivity", type=float, help="L2 sensitivity itself, instead of --clip-norm")
    parser.add_argument("--dimension", type=int, metavar="D", help="also print the cosine to expect in D dimensions")


def run(options: argparse.Namespace) -> int:
    clip_norm, sensitivity = _scale(options)
    computed, epsilon, delta, sigma = _solve(options.epsilon, options.delta, options.sigma, sensitivity)
    answer: dict[str, Any] = {
        "epsilon": epsilon,
        "delta": delta,
        "sigma": sigma,
        "sensitivity": sensitivity,
        "clip_norm": clip_norm,
    }
    if options.dimension is not None:
        validate.whole_number("dimension", options.dimension, at_least=1)
        answer["dimension"] = options.dimension
        answer["expected_cosine"] = expected_cosine(sigma, options.dimension, clip_norm)
        answer["noise_norm"] = sigma * math.sqrt(options.dimension)
    if epsilon > 0 and delta < 1:
        classical = float(gaussian_sigma(epsilon, delta, sensitivity, method="classical", allow_unproven=True))
        answer["classical_sigma"] = classical
        answer["classical_delta"] = gaussian_delta(epsilon, classical, sensitivity)
    if options.json:
        print_json(answer)
    else:
        print(facts(_lines(answer, computed)))
    return 0


def _scale(options: argparse.Namespace) -> tuple[float, float]:
    """(norm of a vector, sensitivity)."""
    if options.sensitivity is not None:
        sensitivity = validate.positive("sensitivity", options.sensitivity)
        return sensitivity / 2, sensitivity
    clip_norm = validate.positive("clip_norm", 1.0 if options.clip_norm is None else options.clip_norm)
    return clip_norm, 2 * clip_norm


def _solve(
    epsilon: float | None, delta: float | None, sigma: float | None, sensitivity: float
) -> tuple[str, float, float, float]:
    """(name of the one that was computed, epsilon, delta, sigma)."""
    if delta is None and (epsilon is None) != (sigma is None):
        delta = 1e-5
    if epsilon is not None and delta is not None and sigma is None:
        return "sigma", epsilon, delta, float(gaussian_sigma(epsilon, delta, sensitivity))
    if sigma is not None and delta is not None and epsilon is None:
        return "epsilon", _finite_epsilon(delta, sigma, sensitivity), delta, sigma
    if sigma is not None and epsilon is not None and delta is None:
        return "delta", epsilon, float(gaussian_delta(epsilon, sigma, sensitivity)), sigma
    raise ValueError("two of --epsilon, --delta and --sigma must be given, the third is computed")


def _finite_epsilon(delta: float, sigma: float, sensitivity: float) -> float:
    epsilon = float(gaussian_epsilon(delta, sigma, sensitivity))
    if not math.isfinite(epsilon):
        raise ValueError(f"sigma must be large enough for a finite epsilon, got {sigma!r}")
    return epsilon


def _shown(value: float, *, computed: bool) -> str:
    """A computed value is rounded up, so the printed digits are never less than it."""
    return f"{rounded_up(value, SHOWN_DIGITS):.{SHOWN_DIGITS}g}" if computed else repr(value)


def _lines(answer: dict[str, Any], computed: str) -> list[tuple[str, str]]:
    lines = [
        *((name, _shown(answer[name], computed=name == computed)) for name in ("epsilon", "delta", "sigma")),
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
