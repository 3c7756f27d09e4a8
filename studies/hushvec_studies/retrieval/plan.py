"""Which runs a command makes of a configuration.

A run is one choice of sides, noise, epsilon and public map on one set of texts and queries. Its settings are all that decides its
figures; two commands that ask for the same run share it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from hushvec_studies.harness.measurements import digest_of, noise_seed
from hushvec_studies.retrieval.configuration import KEYS, Configuration, NoiseFamily, to_values, with_settings

_SIDE_OF = {"doc_ldp": "document", "query_ldp": "query", "score_ldp": "score"}
# Settings that say which runs there are, where vectors and models are kept, or what the study is called; all others decide figures.
_OF_THE_PLAN = {
    *("name", "embedding.cache", "retrieval.prepared", "ablate", "robustness"),
    *(f"privacy.{name}" for name in ("mechanisms", "combined", "epsilons", "noise", "projections")),
}
# Settings that came later. At their defaults they are no part of a run, so that runs from before keep their names and their noise.
_LATER = ("data.lower_case", "data.drop_stop_words")
# Settings that say how answers are judged, after all noise has been drawn: other values of them see the same noise.
_OF_THE_JUDGEMENT = ("retrieval.latency_queries", "attack.attacks", "statistics.confidence", "statistics.resamples")


@dataclass(frozen=True)
class Run:
    """One run.

    Args:
        configuration: of the study, with what an ablation changed.
        mechanism: none, doc_ldp, query_ldp, score_ldp, combined.
        sides: where noise is put.
        noise: its family; None without noise.
        epsilon: of every side; inf without noise; None where the family has a sigma instead.
        ks: numbers of documents that a search answers with, ascending.
    """

    configuration: Configuration
    mechanism: str
    sides: tuple[str, ...]
    noise: NoiseFamily | None
    epsilon: float | None
    projection: str
    ks: tuple[int, ...]

    @property
    def label(self) -> str:
        if self.noise is None:
            return "no noise"
        size = f"epsilon {self.epsilon:g}" if self.epsilon is not None else f"sigma {self.noise.sigma:g}"
        return f"{'+'.join(self.sides)}, {self.noise.name}, {size}"

    def settings(self) -> dict[str, Any]:
        """Everything that decides the figures beside texts, vectors and version, as JSON knows it."""
        values = to_values(self.configuration)
        for name in _OF_THE_PLAN:
            section, _, key = name.partition(".")
            if key:
                del values[section][key]
            else:
                del values[section]
        del values["retrieval"]["k"]
        for name in _LATER:
            section, _, key = name.partition(".")
            if values[section][key] == KEYS[name].default:
                del values[section][key]
        if self.projection == "none":
            del values["privacy"]["public_split"]
        return values | {
            "sides": list(self.sides),
            "noise": None if self.noise is None else self.noise.model_dump(mode="json"),
            "epsilon": "inf" if self.epsilon == math.inf else self.epsilon,
            "projection": self.projection,
            "ks": list(self.ks),
        }

    def key(self, inputs: str, version: str) -> dict[str, Any]:
        """Everything that decides the figures of the run on inputs of this digest by this version of the package."""
        return {**self.settings(), "inputs": inputs, "version": version}

    def drawing(self, inputs: str, version: str) -> dict[str, Any]:
        """Everything that decides noise, indexes and their answers: the key without what only judges them."""
        key, default = self.key(inputs, version), to_values(Configuration())
        for name in _OF_THE_JUDGEMENT:
            section, _, inner = name.partition(".")
            key[section][inner] = default[section][inner]
        return key

    def seed(self, purpose: str) -> int:
        """A seed of its own for every run and purpose, the same however the run is judged."""
        return noise_seed(digest_of(self.drawing(purpose, "")))

    def fingerprint(self, inputs: str, version: str) -> str:
        """The config_hash of the run: 32 hexadecimal digits of its key's digest."""
        return digest_of(self.key(inputs, version))[:32]


def planned(configuration: Configuration) -> list[Run]:
    """The runs that the section `privacy` lists."""
    return _distinct(_runs(configuration))


def grid(configuration: Configuration) -> list[Run]:
    """The full factorial: every mechanism with every noise, epsilon and public map, whatever `privacy.mechanisms` lists."""
    return planned(with_settings(configuration, {"privacy.mechanisms": ("none", *_SIDE_OF, "combined")}))


def ablations(configuration: Configuration) -> list[Run]:
    """The configured runs, and those with each setting of `ablate` at each of its values, one at a time."""
    return _varied(configuration, ({key: value} for key, values in configuration.ablate.items() for value in values))


def robustness(configuration: Configuration) -> list[Run]:
    """The configured runs, and the same on each other split, embedding model and seed of `robustness`."""
    others = configuration.robustness
    names = {"data.split": others.splits, "embedding.model": others.models, "seed": others.seeds}
    return _varied(configuration, ({key: value} for key, values in names.items() for value in values))


def _varied(configuration: Configuration, changes: Iterable[Mapping[str, Any]]) -> list[Run]:
    variants = (with_settings(configuration, change) for change in changes)
    return _distinct(run for variant in (configuration, *variants) for run in _runs(variant))


def first_difference(one: Configuration, other: Mapping[str, Any]) -> str | None:
    """The first setting that decides figures in which the values of another configuration differ; None if there is none."""
    values = to_values(one)
    for name in KEYS:
        section, _, key = name.partition(".")
        if name in _OF_THE_PLAN or section in _OF_THE_PLAN:
            continue
        here = values[section][key] if key else values[section]
        there = other.get(section, {}).get(key, KEYS[name].default if name in _LATER else None) if key else other.get(section)
        if here != there:
            return f"{name} is {there!r} there and {here!r} here"
    return None


def _runs(configuration: Configuration) -> Iterator[Run]:
    privacy = configuration.privacy
    ks = tuple(sorted(configuration.retrieval.k))
    for projection in privacy.projections:
        if "none" in privacy.mechanisms or math.inf in privacy.epsilons:
            yield Run(configuration, "none", (), None, math.inf, projection, ks)
        for mechanism in privacy.mechanisms:
            for sides in _sides(mechanism, privacy.combined):
                for family in privacy.noise:
                    if any((family.scores if side == "score" else family.vectors) is None for side in sides):
                        continue  # it has no mechanism for one of them
                    finite = [epsilon for epsilon in privacy.epsilons if epsilon != math.inf]
                    # one search serves all k, except where the noise depends on k
                    searches = [(k,) for k in ks] if "score" in sides and family.scores == "gumbel" else [ks]
                    for epsilon in [None] if family.sigma is not None else finite:
                        for depths in searches:
                            yield Run(configuration, mechanism, sides, family, epsilon, projection, depths)


def _sides(mechanism: str, combined: Iterable[str]) -> list[tuple[str, ...]]:
    if mechanism == "none":
        return []
    return [(_SIDE_OF[mechanism],)] if mechanism in _SIDE_OF else [tuple(sides.split("+")) for sides in combined]


def _distinct(runs: Iterable[Run]) -> list[Run]:
    seen: dict[str, Run] = {}
    for run in runs:
        seen.setdefault(run.fingerprint("", ""), run)
    return list(seen.values())
