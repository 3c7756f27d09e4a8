"""`GET /v1/explore`: what an attacker reads from released vectors, shown on the invented texts that come with hushvec.

Nobody is in these texts, so nothing is charged.
"""

from __future__ import annotations

import math
from functools import cache, lru_cache
from typing import NamedTuple

import numpy as np
from fastapi import APIRouter, Request, Response
from numpy.typing import NDArray

from hushvec.data import private_note_vectors, private_notes, public_sentence_vectors, public_sentences
from hushvec.release import privatize
from hushvec.serve.bodies import JSON
from hushvec.serve.failures import invalid
from hushvec.serve.releases import json_payload
from hushvec.serve.routes import reader
from hushvec.serve.service import service_of

router = APIRouter(tags=["explorer"])

MECHANISM = "privunit"
RELEASES = 60
LOWEST_EPSILON = 0.5
HIGHEST_EPSILON = 64.0

_DIGITS = 3  # of epsilon
_DECIMALS = 4  # of coordinates
_ABOUT = "The texts are invented and ship with hushvec. Nobody is in them, so nothing is charged."


class _Plane(NamedTuple):
    """The plane in which the public sentences vary most."""

    center: NDArray[np.float32]
    axes: NDArray[np.float32]
    explained: float

    def points(self, rows: NDArray[np.float32]) -> list[list[float]]:
        points: list[list[float]] = np.round(((rows - self.center) @ self.axes.T).astype(np.float64), _DECIMALS).tolist()
        return points


@router.get("/v1/explore")
async def explore(request: Request, note: str = "0", epsilon: str = "8") -> Response:
    """Releases of one of the bundled notes, and what a nearest-neighbor attacker finds from each."""
    reader(request)
    number, rounded = _note(note), _epsilon(epsilon)
    content = await service_of(request).work.run(lambda: _explored(number, rounded), request.state.tenant)
    return Response(content, media_type=JSON)


@lru_cache(maxsize=256)
def _explored(note: int, epsilon: float) -> bytes | memoryview:
    """Return the answer as it is sent: 36 kB, and several times as much as objects."""
    plane, notes, note_rows, sentence_rows = _plane(), private_notes(), private_note_vectors(), public_sentence_vectors()
    copies = np.repeat(note_rows[note : note + 1], RELEASES, axis=0)
    rows = np.asarray(privatize(copies, epsilon=epsilon, mechanism=MECHANISM).values, np.float32)
    guesses = (rows @ note_rows.T).argmax(1)
    nearest = (rows @ sentence_rows.T).argmax(1)
    releases = [
        {"x": x, "y": y, "note": int(guess), "sentence": int(sentence), "right": bool(guess == note)}
        for (x, y), guess, sentence in zip(plane.points(rows), guesses, nearest)
    ]
    x, y = plane.points(note_rows[note : note + 1])[0]
    fields = {
        "about": _ABOUT,
        "charged": False,
        "mechanism": MECHANISM,
        "epsilon": epsilon,
        "note": {"number": note, "text": notes[note], "x": x, "y": y},
        "notes": notes,
        "sentences": [{"text": text, "x": x, "y": y} for text, (x, y) in zip(public_sentences(), plane.points(sentence_rows))],
        "explained": plane.explained,
        "releases": releases,
        "attack": {
            "candidates": len(notes), "right": int((guesses == note).sum()), "share": float((guesses == note).mean()),
            "bound": bound_among(len(notes), epsilon), "chance": 1 / len(notes),
        },
    }
    return json_payload(fields).body


@cache
def _plane() -> _Plane:
    rows = public_sentence_vectors()
    center = rows.mean(axis=0)
    _, spread, axes = np.linalg.svd(rows - center, full_matrices=False)
    axes = axes[:2]
    axes *= np.sign(axes[np.arange(2), np.abs(axes).argmax(1)])[:, None]  # the same picture whatever the BLAS
    return _Plane(center, axes, float((spread[:2] ** 2).sum() / (spread**2).sum()))


def bound_among(candidates: int, epsilon: float) -> float:
    """Return the most that any attacker reaches who takes every candidate to be equally likely: e^epsilon / (e^epsilon + n - 1)."""
    return 1 / (1 + (candidates - 1) * math.exp(-epsilon))


def _note(asked: str) -> int:
    count = len(private_notes())
    if not (asked.isascii() and asked.isdigit() and len(asked) < 4 and int(asked) < count):
        raise invalid(f"note must be a whole number from 0 to {count - 1}", "note")
    return int(asked)


def _epsilon(asked: str) -> float:
    """Return epsilon rounded, so that few answers serve all positions of a slider."""
    try:
        epsilon = float(asked) if len(asked) <= 32 else math.nan
    except ValueError:
        epsilon = math.nan
    if not LOWEST_EPSILON <= epsilon <= HIGHEST_EPSILON:
        raise invalid(f"epsilon must be from {LOWEST_EPSILON:g} to {HIGHEST_EPSILON:g}", "epsilon")
    return float(f"{epsilon:.{_DIGITS}g}")
