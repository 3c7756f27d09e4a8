"""What users of hushvec see, as JSON: public names with their signatures, and digests of fixed releases.

    python scripts/public_surface.py > before.json         # at one commit
    python scripts/public_surface.py --compare before.json # at another: exit code 1 where a name, a signature or a bit is another

A refactoring changes nothing here but by intention. Names that were added are listed, and are no difference.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import inspect
import json
import pkgutil
import re
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import hushvec as hv

# Modules that are public without an `__all__` are none: the library's packages all have one.
SKIPPED = ("hushvec._", "hushvec.cli", "hushvec.study", "hushvec.__main__")


def public_names() -> dict[str, dict[str, str]]:
    """module -> name -> signature, of every module with `__all__`."""
    found = {"hushvec": names_of(hv)}
    for module in pkgutil.walk_packages(hv.__path__, "hushvec."):
        if module.name.startswith(SKIPPED):
            continue
        try:
            loaded = importlib.import_module(module.name)
        except ImportError as error:
            print(f"left out: {module.name}: {error}", file=sys.stderr)
            continue
        if hasattr(loaded, "__all__"):
            found[module.name] = names_of(loaded)
    return found


def names_of(module: Any) -> dict[str, str]:
    return {name: described(getattr(module, name)) for name in module.__all__}


def described(value: Any) -> str:
    """A function's signature; a class's, with those of its public methods; the type of anything else."""
    if inspect.isclass(value):
        methods = {
            name: signature(method)
            for name, method in inspect.getmembers(value)
            if not name.startswith("_") and (inspect.isroutine(method) or isinstance(method, property))
        }
        return f"class{signature(value)} {methods}"
    return signature(value) if callable(value) else type(value).__name__


def signature(value: Any) -> str:
    if isinstance(value, property):
        return "property"
    try:
        parameters = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return "(...)"
    # Annotations name modules, which may move; kinds, names and defaults are what a call depends on.
    text = "(" + ", ".join(str(one.replace(annotation=inspect.Parameter.empty)) for one in parameters) + ")"
    return re.sub(r"<class 'hushvec\.[\w.]*?(\w+)'>", r"\1", text)  # a default, which may live elsewhere


def digest(*arrays: Any) -> str:
    hashed = hashlib.sha256()
    for array in arrays:
        values = np.ascontiguousarray(array)
        hashed.update(f"{values.dtype.str}{values.shape}".encode() + values.tobytes())
    return hashed.hexdigest()


def text_digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def rows(count: int = 7, dimension: int = 40) -> np.ndarray:
    return np.sin(np.arange(count * dimension, dtype=np.float64)).reshape(count, dimension).astype(np.float32)


def seeded(rounds: int = 20) -> hv.Generator:
    return hv.Generator.unsafe_seeded(1234, rounds=rounds)


def release(**arguments: Any) -> str:
    values, receipt = hv.privatize(rows(), generator=seeded(), **arguments)
    return digest(values) + text_digest(receipt.to_json())


def labels() -> str:
    released = hv.privatize_labels(["yes", "no", "no"] * 20, ["no", "yes", "maybe"], epsilon=1.0, generator=seeded())
    return text_digest(json.dumps(list(released.values)) + released.receipt.to_json())


def codebook() -> str:
    from hushvec.mechanisms import PublicCodebook

    book = PublicCodebook.of(rows(40, 16))
    released = hv.privatize(rows(49, 16)[40:], mechanism=book.mechanism(epsilon=4.0), generator=seeded())
    return book.digest + digest(released.values) + text_digest(released.receipt.to_json())


def collected() -> str:
    from hushvec.collect import Vocabulary

    words = Vocabulary(["a", "b", "c", "d"], epsilon=2.0)
    return digest(words.report(["a", "b"], generator=seeded()))


def job() -> str:
    from hushvec.jobs import NoiseJob, noise_batch

    planned = NoiseJob.unsafe_seeded(1234, dimension=40, epsilon=4.0)
    return digest(noise_batch(rows(50), planned)) + planned.id


def searched() -> str:
    from hushvec.retrieval import PrivateIndex, VectorNoise

    index = PrivateIndex(40, store="numpy", documents=VectorNoise(epsilon=8.0), generator=seeded())
    index.add(rows(30))
    found = index.search(rows(3), k=5)
    return digest(found.ids, found.scores)


def accounted() -> str:
    from hushvec.accounting import GaussianDP, compose

    total = compose([GaussianDP(noise_multiplier=2.0)] * 3, delta=1e-5)
    return repr((total.theorem, total.epsilon))


RELEASES: dict[str, Callable[[], str]] = {
    "gaussian_noise": lambda: digest(hv.gaussian_noise((5, 33), 2.0, generator=seeded())),
    "laplacian_noise": lambda: digest(hv.laplacian_noise((5, 33), 2.0, generator=seeded(8))),
    "l2_laplace_noise": lambda: digest(hv.l2_laplace_noise((5, 33), 2.0, generator=seeded(12))),
    "float64 noise": lambda: digest(hv.gaussian_noise((5, 33), dtype="float64", generator=seeded())),
    "clip": lambda: digest(hv.clip(rows(), 0.5)),
    "clip_and_noise": lambda: digest(hv.clip_and_noise(rows(), 1.0, 0.5, generator=seeded())),
    "sigma": lambda: repr([hv.gaussian_sigma(e, 1e-6) for e in (0.1, 1.0, 8.0)]),
    "randomized_response": lambda: repr(hv.randomized_response(["a", "b"] * 20, ["a", "b", "c"], 1.0, generator=seeded())),
    **{
        name: lambda name=name: release(mechanism=name, epsilon=6.0)
        for name in ("gaussian", "laplacian", "l2_laplace", "privunit")
    },
    "empirical": lambda: release(mechanism="empirical", sigma=0.3),
    "one person, normalized": lambda: release(epsilon=6.0, normalize=True, renormalize=True, per="release"),
    "labels": labels,
    "codebook": codebook,
    "vocabulary": collected,
    "job": job,
    "index": searched,
    "accounting": accounted,
}


def surface() -> dict[str, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {"names": public_names(), "releases": {name: made() for name, made in RELEASES.items()}}


def differences(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """What a user of `before` would miss."""
    found = []
    for module, names in before["names"].items():
        there = now["names"].get(module, {})
        for name, shape in names.items():
            if name in there and there[name] != shape:
                found.append(f"{module}.{name} was {shape}\n    and is {there[name]}")
            elif name not in there:
                found.append(f"{module}.{name} is gone")
    for name, made in before["releases"].items():
        if now["releases"].get(name) != made:
            found.append(f"the release {name!r} has other bits")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--compare", metavar="FILE", help="what an earlier run printed")
    arguments = parser.parse_args()
    now = surface()
    if arguments.compare is None:
        print(json.dumps(now, indent=1, sort_keys=True))
        return 0
    found = differences(json.loads(Path(arguments.compare).read_text(encoding="utf-8")), now)
    print("\n".join(found) if found else "nothing differs")
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
