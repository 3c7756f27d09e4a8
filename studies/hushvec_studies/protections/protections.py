"""The protections that are compared, each as somebody uses it. Those of other packages run in the version that is installed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

import hushvec
from hushvec.mechanisms import PublicCodebook
from hushvec_studies.harness.outputs import versions

Rows = NDArray[np.float32]
Make = Callable[[Rows, Rows, int], Any]
OWN = "own implementation"


@dataclass(frozen=True)
class Protection:
    """One protection.

    Args:
        title: for tables.
        make: of unit rows, other rows that are public, and a seed: an array, or a `hushvec.Release`, whose receipt bounds it.
        package: of PyPI, that `make` needs; `instead`: makes the same where it is not installed.
        clean_questions: whether a question in clear finds protected rows; else questions are protected as rows are.
    """

    title: str
    make: Make
    package: str | None = None
    instead: Make | None = None
    clean_questions: bool = False

    @property
    def made_by(self) -> str | None:
        """Package and version; None: it can't be made here."""
        if self.package and (version := versions(self.package)[self.package]):
            return f"{self.package} {version}"
        return OWN if self.package is None or self.instead else None

    def of(self, rows: Rows, public: Rows, seed: int) -> tuple[NDArray[Any], Any]:
        """(protected rows, their receipt or None)"""
        made = (self.instead if self.instead and self.made_by == OWN else self.make)(rows, public, seed)
        return (np.asarray(made.values), made.receipt) if isinstance(made, hushvec.Release) else (np.asarray(made), None)


def rotated(rows: Rows, public: Rows, seed: int) -> Any:
    from turboquant_vectors import PrivateEncoder

    return PrivateEncoder.from_seed(rows.shape[1], seed=2**64 + seed).rotate(rows)


def own_rotation(rows: Rows, public: Rows, seed: int) -> Any:
    return rows @ np.linalg.qr(np.random.default_rng(seed).standard_normal((rows.shape[1], rows.shape[1])))[0]


def keyed_hadamard(rows: Rows, public: Rows, seed: int) -> Any:
    from hadamask import MasterKey, Protector

    return Protector(MasterKey(Random(seed).randbytes(32))).encode(rows)


def bounded_noise(rows: Rows, public: Rows, seed: int) -> Any:
    from privrag import PrivRAGGuard

    return PrivRAGGuard(random_state=seed, key_seed=Random(seed).randbytes(32)).protect_batch(rows)


def distance_comparing(rows: Rows, public: Rows, seed: int, *, factor: float) -> Any:
    import ironcore_alloy as alloy

    key = alloy.RotatableSecret(alloy.StandaloneSecret(1, alloy.Secret(Random(seed).randbytes(64))), None)
    keys, about = {"rows": alloy.VectorSecret(factor, key)}, alloy.AlloyMetadata.new_simple("study")
    settings = alloy.StandaloneConfiguration.new_seeded_for_testing(alloy.StandardSecrets(None, []), {}, keys, seed)
    service = alloy.Standalone(settings).vector()

    async def encrypted() -> list[Any]:  # one by one: noise of a batch is not seeded, as its order varies
        given = (alloy.PlaintextVector(plaintext_vector=row, secret_path="rows", derivation_path="rows") for row in rows.tolist())
        return [(await service.encrypt(one, about)).encrypted_vector for one in given]

    return np.array(asyncio.run(encrypted()), np.float32)


def int8(rows: Rows, public: Rows, seed: int) -> Any:
    return np.rint(rows * (127 / np.abs(rows).max())).astype(np.int8)


def sign_bits(rows: Rows, public: Rows, seed: int) -> Any:
    return np.where(rows > 0, 1, -1).astype(np.int8)


def plain_noise(rows: Rows, public: Rows, seed: int, *, sigma: float) -> Any:
    return rows + sigma * np.random.default_rng(seed).standard_normal(rows.shape).astype(np.float32)


def released(rows: Rows, public: Rows, seed: int, *, epsilon: float, codebook: bool = False) -> Any:
    """By PrivUnit or behind public codes, with a key of the operating system: a seeded release has no receipt that holds."""
    if not codebook:
        return hushvec.privatize(rows, mechanism="privunit", epsilon=epsilon)
    codes = PublicCodebook.fit(public, epsilon=epsilon, purpose="cosine", seed=seed).for_any_row()
    return hushvec.privatize(rows, mechanism=codes.mechanism(epsilon))


_clear = partial(Protection, clean_questions=True)
PROTECTIONS = {
    "rotation": Protection("rotation", rotated, "turboquant-vectors", own_rotation),
    "hadamard": Protection("keyed Hadamard", keyed_hadamard, "hadamask"),
    "bounded-noise": Protection("rotation and bounded noise", bounded_noise, "privrag-guard"),
    "dcpe-1": Protection("distance-comparing encryption, 1.0", partial(distance_comparing, factor=1.0), "ironcore-alloy"),
    "dcpe-2.5": Protection("distance-comparing encryption, 2.5", partial(distance_comparing, factor=2.5), "ironcore-alloy"),
    "int8": _clear("int8", int8),
    "sign-bits": _clear("sign bits", sign_bits),
    "noise-0.01": _clear("Gaussian noise, sigma 0.01", partial(plain_noise, sigma=0.01)),
    "noise-0.1": _clear("Gaussian noise, sigma 0.1", partial(plain_noise, sigma=0.1)),
    "privunit-16": _clear("PrivUnit, epsilon 16", partial(released, epsilon=16.0), "hushvec"),
    "privunit-8": _clear("PrivUnit, epsilon 8", partial(released, epsilon=8.0), "hushvec"),
    "codebook-8": _clear("codebook, epsilon 8", partial(released, epsilon=8.0, codebook=True), "hushvec"),
}
