"""The settings of an index: noise on each side, store, projection, normalization. Checked together, and written as JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from hushvec._native import _core
from hushvec._util import validate
from hushvec.extend import Budget, require_projection, require_secret_key
from hushvec.mechanisms import MECHANISMS, Mechanism, PublicCodebook, PublicProjection, answers_with_codes
from hushvec.receipts import PER
from hushvec.retrieval.noise import PER_QUERY, ScoreNoise, VectorNoise
from hushvec.retrieval.stores import OWN, STORES, WITH_A_MATRIX

_KINDS: dict[str, type[VectorNoise] | type[ScoreNoise]] = {"documents": VectorNoise, "queries": VectorNoise, "scores": ScoreNoise}
SIDES = tuple(_KINDS)

# Whose rows they are, where the noise does not say: several queries of one search are usually one person's.
_PER = {"documents": "record", "queries": PER_QUERY}


@dataclass(frozen=True)
class IndexSettings:
    """The arguments of `PrivateIndex` that are saved with it: all except its store's path and its generator."""

    dimension: int
    documents: VectorNoise | None = None
    queries: VectorNoise | None = None
    scores: ScoreNoise | None = None
    store: str = "flat"
    store_options: Mapping[str, Any] | None = None
    projection: PublicProjection | None = None
    normalize: bool = True

    def __post_init__(self) -> None:
        validate.whole_number("dimension", self.dimension, at_least=1)
        for name, kind in _KINDS.items():
            side = getattr(self, name)
            validate.instance(name, side, kind | None, f"a hushvec.retrieval.{kind.__name__} or None")
        for name, per in _PER.items():
            noise = getattr(self, name)
            if noise is not None and noise.per is None:
                object.__setattr__(self, name, replace(noise, per=per))
        if self.documents is not None and self.documents.per == PER_QUERY:
            raise ValueError(f"documents must have per={' or '.join(map(repr, PER))}, got {PER_QUERY!r}, which is for queries")
        if self.store != OWN:
            validate.choice("store", self.store, STORES)
        validate.flag("normalize", self.normalize)
        if self.projection is not None and require_projection(self.projection).dimension != self.dimension:
            raise ValueError(f"projection must be for {self.dimension} elements, got one for {self.projection.dimension}")
        if self.projection is not None and self.codebooks:
            raise ValueError("projection must be None with a codebook: fit the codebook on rows behind it, and add such rows")
        for noise in (self.documents, self.queries):
            if noise is not None:
                noise.require_fit(self.columns, normalize=self.normalize)
        if self.scores is not None:
            self._check_scores()

    def _check_scores(self) -> None:
        if self.store not in WITH_A_MATRIX:
            raise ValueError(
                f"store must be {' or '.join(map(repr, WITH_A_MATRIX))} with noise on scores, which needs the scores of all rows, "
                f"got {self.store!r}"
            )
        if self.documents is not None and self.documents.per == "release":
            raise ValueError("documents must have per='record' with noise on scores, which protects one row for each person")

    @property
    def columns(self) -> int:
        """Elements of the stored rows: the dimension of the index, or the projection's output dimension."""
        return self.dimension if self.projection is None else self.projection.output_dimension

    @property
    def budgets(self) -> dict[str, Budget]:
        """Budgets of the sides that have one."""
        budgets = {name: getattr(getattr(self, name), "budget", None) for name in SIDES}
        return {name: budget for name, budget in budgets.items() if budget is not None}

    @property
    def codebooks(self) -> dict[str, PublicCodebook]:
        """Codebooks of the sides that release public codes."""
        mechanisms: dict[str, Any] = {name: getattr(getattr(self, name), "mechanism", None) for name in SIDES}
        return {name: mechanism.codebook for name, mechanism in mechanisms.items() if answers_with_codes(mechanism)}

    def with_budgets(self, budgets: Mapping[str, Budget | None]) -> IndexSettings:
        """A copy with these budgets, by side, and no others."""
        sides = {name: getattr(self, name) for name in SIDES}
        changed = {name: replace(side, budget=budgets.get(name)) for name, side in sides.items() if side is not None}
        return replace(self, **changed)

    def require_secret_key(self, generator: _core.Generator) -> None:
        """Refuse to charge for noise that has no privacy."""
        if self.budgets:
            require_secret_key(generator)

    # ---- as JSON; projection and codebooks are separate files ----

    def to_dict(self) -> dict[str, Any]:
        return {
            "dimension": self.dimension,
            "documents": _noise_to_dict(self.documents),
            "queries": _noise_to_dict(self.queries),
            "scores": _noise_to_dict(self.scores),
            "store": self.store,
            "store_options": None if self.store_options is None else dict(self.store_options),
            "normalize": self.normalize,
        }

    @classmethod
    def from_dict(
        cls, fields: Mapping[str, Any], projection: PublicProjection | None, codebooks: Mapping[str, PublicCodebook]
    ) -> IndexSettings:
        """The settings, without budgets. Projection and codebooks (by side) are separate files."""
        arguments: dict[str, Any] = {name: fields[name] for name in ("dimension", "store", "store_options", "normalize")}
        for name, kind in _KINDS.items():
            arguments[name] = None if fields[name] is None else kind(**_noise_fields(fields[name], codebooks.get(name)))
        return cls(projection=projection, **arguments)


def _noise_to_dict(noise: VectorNoise | ScoreNoise | None) -> dict[str, Any] | None:
    """The arguments as JSON; instead of the budget, only whether there was one."""
    if noise is None:
        return None
    fields = {field.name: getattr(noise, field.name) for field in dataclasses.fields(noise) if field.init}
    fields["budget"] = noise.budget is not None
    mechanism = fields["mechanism"]
    if answers_with_codes(mechanism):
        fields["mechanism"] = {"name": mechanism.name, "epsilon": mechanism.epsilon, "rows_per_person": mechanism.rows_per_person}
    elif isinstance(mechanism, Mechanism):
        fields["mechanism"] = {"name": mechanism.name, **dataclasses.asdict(mechanism)}
    return fields


def _noise_fields(stored: Mapping[str, Any], codebook: PublicCodebook | None) -> dict[str, Any]:
    fields = {**stored, "budget": None}
    if isinstance(fields["mechanism"], Mapping):
        ready = dict(fields["mechanism"])
        kind = ready.pop("name")
        fields["mechanism"] = MECHANISMS[kind](**ready) if codebook is None else codebook.mechanism(**ready)
    return fields
