"""`POST /v1/aggregate` and `POST /v1/topics`: a mean or a classifier of many people's rows, and what their rows are about, with one
guarantee for each person."""

from __future__ import annotations

import json
from dataclasses import replace
from math import isqrt
from typing import Any, Literal

from fastapi import APIRouter
from pydantic import Field

from hushvec.aggregates import (
    LinearClassifier,
    PrivateTopics,
    PublicTopics,
    class_centroids,
    private_classifier,
    private_mean,
    private_topics,
)
from hushvec.embedders.protocol import NOTE_OWN_TEXT
from hushvec.serve.bodies import Epsilon, Fields, Rows
from hushvec.serve.failures import ServiceError, about_vectors, invalid
from hushvec.serve.releases import Payload, epsilon_of, json_payload
from hushvec.serve.routes import Run, endpoint
from hushvec.serve.service import Caller, Service, require_rows, require_texts

router = APIRouter(tags=["vectors"])

# A classifier has scores of every row and a direction of as many elements as there are columns, for each label; some copies at once.
BYTES_PER_SCORE = 32
BYTES_PER_PAIR = 16  # of public rows, whose distances topics are made of

_CLASSIFIERS = {"centroids": class_centroids, "classifier": private_classifier}
_GROWN = ("difference", "standard_error", "p_values", "order")


class _OfPeople(Fields):
    """Whose rows they are, and what may be spent on them."""

    people: list[int] | list[str] | None = Field(default=None, description="whose each row is; another person's if left out")
    rows_per_person: int = Field(default=1, ge=1, description="the most rows of one person; with people, further ones are dropped")
    epsilon: Epsilon = None

    def terms(self, caller: Caller, count: int) -> dict[str, Any]:
        """Return what a release of so many rows is made with, where the policy allows it. Errors name nobody."""
        tenant = caller.tenant
        if not tenant.aggregates:
            raise ServiceError(403, "not_in_policy", "aggregates must be true in the policy")
        epsilon = epsilon_of(tenant, self.epsilon)
        require_rows(count, caller)
        _require_one_each("people", self.people, count)
        return {"epsilon": epsilon, "delta": tenant.delta, "people": self.people, "rows_per_person": self.rows_per_person}


class AggregateRequest(_OfPeople):
    """Rows of many people; for classifiers the label of each, and the public list of all labels."""

    kind: Literal["mean", "centroids", "classifier"]
    vectors: Rows
    groups: list[int] | list[str] | None = Field(default=None, description="the label of each row")
    labels: list[int] | list[str] | None = Field(default=None, description="all labels that there may be; public")


@endpoint(router, "/v1/aggregate", AggregateRequest)
def aggregate(service: Service, caller: Caller, asked: AggregateRequest, run: Run) -> Payload:
    """A mean or a classifier of many people's rows. The whole request is one release; what is computed from it is free."""
    terms = asked.terms(caller, len(asked.vectors))
    _require_fitting(asked, caller)

    def make(budget: Any) -> Payload:
        with about_vectors("rows"):
            if asked.kind == "mean":
                made: Any = private_mean(asked.vectors, clip_norm=caller.tenant.clip_norm, budget=budget, **terms)
            else:
                made = _CLASSIFIERS[asked.kind](asked.vectors, asked.groups, labels=asked.labels, budget=budget, **terms)
        fields = _fields_of(made)
        # The number of rows that were sent is private.
        service.metrics.released(caller.name, len(fields.get("labels", [0])), terms["epsilon"])
        return json_payload({"kind": asked.kind, **fields, "receipt": made.receipt.to_dict()}, made.receipt)

    return run(make)


def _fields_of(made: Any) -> dict[str, Any]:
    """Return the arrays and numbers of a release: arguments of `PrivateMean` or of `LinearClassifier`."""
    if isinstance(made, LinearClassifier):
        return {"labels": made.classes_.tolist(), "mean": made.mean_, "coef": made.coef_, "heat": made.heat}
    return {"mean": made.mean, "count": made.count, "standard_error": made.standard_error}


def _require_fitting(asked: AggregateRequest, caller: Caller) -> None:
    """Require labels as the kind has them, within the tenant's limits. Errors name no label."""
    limits, (count, columns) = caller.tenant.limits, asked.vectors.shape
    _require_one_each("groups", asked.groups, count)
    if asked.kind == "mean":
        if asked.groups is not None or asked.labels is not None:
            raise invalid("groups and labels must be left out for a mean", "groups")
        return
    if asked.groups is None or asked.labels is None:
        raise invalid("groups and labels must be given: the label of each row, and the public list of all labels", "labels")
    known = set(asked.labels)
    if len(known) < max(2, len(asked.labels)):
        raise invalid(f"labels must be at least 2, all different, got {len(asked.labels)}, of which {len(known)} differ", "labels")
    if (count + columns) * len(known) * BYTES_PER_SCORE > limits.body_bytes:
        most = limits.body_bytes // (BYTES_PER_SCORE * (count + columns))
        raise invalid(f"labels must be at most {most} for {count} rows of {columns} elements, got {len(known)}", "labels")
    for place, label in enumerate(asked.groups):
        if label not in known:
            raise invalid(f"groups must be among the {len(known)} labels, got another one at position {place}", "groups")


def _require_one_each(name: str, listed: list[Any] | None, count: int) -> None:
    if listed is not None and len(listed) != count:
        raise invalid(f"{name} must have {count} elements, one for each row, got {len(listed)}", name)


# ---- topics ----


class TopicsRequest(_OfPeople):
    """Rows of many people, and public ones of which topics are made; as vectors, or as texts for the tenant's model."""

    vectors: Rows | None = None
    texts: list[str] | None = Field(default=None, description="people's texts, in place of vectors")
    pool: Rows | None = Field(default=None, description="public vectors, of the kind that people's are")
    pool_texts: list[str] | None = Field(default=None, description="public texts: names of topics; also in place of pool")
    model: str | None = None
    topics: int | None = Field(default=None, ge=2, description="how many; 1.5 sqrt(rows of pool) if left out, at most 200")
    before: dict[str, Any] | None = Field(default=None, description="release of an earlier answer, to see what grew")


@endpoint(router, "/v1/topics", TopicsRequest)
def topics(service: Service, caller: Caller, asked: TopicsRequest, run: Run) -> Payload:
    """What many people's rows are about, by noisy votes for topics of public rows; and what grew, which is free. The whole request is
    one release."""
    rows = asked.texts if asked.vectors is None else asked.vectors
    terms = asked.terms(caller, 0 if rows is None else len(rows))
    _require_rows_and_pool(asked, caller)

    def vectors_of(given: Any) -> Any:
        if not isinstance(given, list):
            return given
        return service.model(service.model_name(caller, asked.model)).embed(caller.clean(given), caller.name)

    with about_vectors("rows"):
        pool = vectors_of(asked.pool_texts if asked.pool is None else asked.pool)
        public = PublicTopics.fit(pool, texts=asked.pool_texts, topics=asked.topics or "auto")
    earlier = None if asked.before is None else _earlier(asked.before, public)
    notes = () if asked.texts is None else (NOTE_OWN_TEXT,)
    rows = vectors_of(rows)

    def make(budget: Any) -> Payload:
        with about_vectors("rows"):
            made = private_topics(rows, pool=public, budget=budget, **terms)
        made = replace(made, receipt=replace(made.receipt, notes=notes))
        # The number of rows that were sent is private.
        service.metrics.released(caller.name, len(made.counts), terms["epsilon"])
        grown = None if earlier is None else made.growth(earlier)
        fields: dict[str, Any] = {"names": made.names, "shares": made.shares, "intervals": made.intervals()}
        fields["growth"] = grown and {name: getattr(grown, name) for name in _GROWN}
        return json_payload({**fields, "release": json.loads(made.to_json()), "receipt": made.receipt.to_dict()}, made.receipt)

    return run(make)


def _require_rows_and_pool(asked: TopicsRequest, caller: Caller) -> None:
    """Require one kind of rows, and a pool within the tenant's limits."""
    if (asked.vectors is None) == (asked.texts is None):
        raise invalid("one of vectors and texts must be given", "vectors")
    for name in ("texts", "pool_texts"):
        if (texts := getattr(asked, name)) is not None:
            require_texts(texts, caller, name)
    name = "pool_texts" if asked.pool is None else "pool"
    if (pool := getattr(asked, name)) is None:
        raise invalid("pool or pool_texts must be given: public rows, of which topics are made", "pool")
    if len(pool) > (most := isqrt(caller.tenant.limits.body_bytes // BYTES_PER_PAIR)):
        raise invalid(f"{name} must have at most {most} elements, got {len(pool)}", name)
    _require_one_each("pool_texts", asked.pool_texts, len(pool))


def _earlier(before: dict[str, Any], public: PublicTopics) -> PrivateTopics:
    """Return an earlier release of these topics. What is wrong with it is found here: after the charge nothing may fail."""
    try:
        found = replace(PrivateTopics.from_json(json.dumps(before)), series="")
        found.growth(found)
    except (ArithmeticError, TypeError, ValueError):
        raise invalid("before must be release of an earlier answer, or a file of hushvec topics", "before") from None
    if found.pool != public.digest or found.examples != public.examples:
        rule = f"before must have the topics of this request, {public.digest:.16}..., made of the same pool"
        raise ServiceError(422, "another_pool", rule, param="before")
    return found
