"""`POST /v1/aggregate`: a mean or a classifier of many people's rows, with one guarantee for each person."""

from __future__ import annotations

from typing import Any, Literal

from fastapi import APIRouter
from pydantic import Field

from hushvec.aggregates import LinearClassifier, class_centroids, private_classifier, private_mean
from hushvec.serve.bodies import Epsilon, Fields, Rows
from hushvec.serve.failures import ServiceError, about_vectors, invalid
from hushvec.serve.releases import Payload, epsilon_of, json_payload
from hushvec.serve.routes import Run, endpoint
from hushvec.serve.service import Caller, Service, require_rows

router = APIRouter(tags=["vectors"])

# A classifier has scores of every row and a direction of as many elements as there are columns, for each label; some copies at once.
BYTES_PER_SCORE = 32

_CLASSIFIERS = {"centroids": class_centroids, "classifier": private_classifier}


class AggregateRequest(Fields):
    """Rows of many people; for classifiers the label of each, and the public list of all labels."""

    kind: Literal["mean", "centroids", "classifier"]
    vectors: Rows
    groups: list[int] | list[str] | None = Field(default=None, description="the label of each row")
    labels: list[int] | list[str] | None = Field(default=None, description="all labels that there may be; public")
    people: list[int] | list[str] | None = Field(default=None, description="whose each row is; another person's if left out")
    rows_per_person: int = Field(default=1, ge=1, description="the most rows of one person; with people, further ones are dropped")
    epsilon: Epsilon = None


@endpoint(router, "/v1/aggregate", AggregateRequest)
def aggregate(service: Service, caller: Caller, asked: AggregateRequest, run: Run) -> Payload:
    """A mean or a classifier of many people's rows. The whole request is one release; what is computed from it is free."""
    tenant = caller.tenant
    if not tenant.aggregates:
        raise ServiceError(403, "not_in_policy", "aggregates must be true in the policy")
    epsilon = epsilon_of(tenant, asked.epsilon)
    _require_fitting(asked, caller)
    terms: dict[str, Any] = {"epsilon": epsilon, "delta": tenant.delta}
    terms |= {"people": asked.people, "rows_per_person": asked.rows_per_person}

    def make(budget: Any) -> Payload:
        with about_vectors("rows"):
            if asked.kind == "mean":
                made: Any = private_mean(asked.vectors, clip_norm=tenant.clip_norm, budget=budget, **terms)
            else:
                made = _CLASSIFIERS[asked.kind](asked.vectors, asked.groups, labels=asked.labels, budget=budget, **terms)
        fields = _fields_of(made)
        # The number of rows that were sent is private.
        service.metrics.released(caller.name, len(fields.get("labels", [0])), epsilon)
        return json_payload({"kind": asked.kind, **fields, "receipt": made.receipt.to_dict()}, made.receipt)

    return run(make)


def _fields_of(made: Any) -> dict[str, Any]:
    """Return the arrays and numbers of a release: arguments of `PrivateMean` or of `LinearClassifier`."""
    if isinstance(made, LinearClassifier):
        return {"labels": made.classes_.tolist(), "mean": made.mean_, "coef": made.coef_, "heat": made.heat}
    return {"mean": made.mean, "count": made.count, "standard_error": made.standard_error}


def _require_fitting(asked: AggregateRequest, caller: Caller) -> None:
    """Require lists of the right lengths, within the tenant's limits. Errors name no label."""
    limits, (count, columns) = caller.tenant.limits, asked.vectors.shape
    require_rows(count, caller)
    for name in ("groups", "people"):
        listed = getattr(asked, name)
        if listed is not None and len(listed) != count:
            raise invalid(f"{name} must have {count} elements, one for each row, got {len(listed)}", name)
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
