"""`POST /v1/embeddings`: OpenAI's shape, with rows that are released privately; `POST /v1/privatize`: the client's own vectors,
as JSON or as an Arrow stream; `POST /v1/ask` and `POST /v1/rank`: the two halves of a private question to a holder of public
documents. For questions the service stands on the client's side: it sees the question, and makes what the holder may see."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
from fastapi import APIRouter
from numpy.typing import NDArray
from pydantic import Field, field_validator

from hushvec.embedders.protocol import NOTE_OWN_TEXT
from hushvec.mechanisms import PublicProjection
from hushvec.retrieval.queries.question import Question, candidates, ranked, unit
from hushvec.serve.bodies import ARROW, Epsilon, Fields, Rows, Vector, read_vectors, write_vectors
from hushvec.serve.failures import ServiceError, invalid
from hushvec.serve.models import Kept
from hushvec.serve.policy import mechanisms_offered
from hushvec.serve.releases import Payload, epsilon_of, json_payload, receipt_headers, release_rows
from hushvec.serve.routes import Run, endpoint
from hushvec.serve.service import Caller, Service, require_rows, require_texts

router = APIRouter()

# The public map behind `dimensions` is random, the same everywhere.
_PROJECTION_SEED = 0


class EmbeddingsRequest(Fields):
    """What OpenAI's clients send; `epsilon` is ours."""

    input: str | list[str]
    model: str | None = None
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: int | None = Field(default=None, ge=1)
    user: str | None = Field(default=None, description="ignored, and kept nowhere")
    epsilon: Epsilon = None

    @field_validator("input", mode="before")
    @classmethod
    def _no_tokens(cls, value: Any) -> Any:
        first = value[0] if isinstance(value, list) and value else value
        if isinstance(first, int | list):
            raise ValueError("must be texts: tokens cannot be redacted, and belong to one model")
        return value


@endpoint(router, "/v1/embeddings", EmbeddingsRequest, "embeddings")
def embeddings(service: Service, caller: Caller, asked: EmbeddingsRequest, run: Run) -> Payload:
    """Private embeddings of texts. The whole request is one release."""
    texts = [asked.input] if isinstance(asked.input, str) else asked.input
    require_texts(texts, caller, "input")
    epsilon = epsilon_of(caller.tenant, asked.epsilon)
    name = service.model_name(caller, asked.model)
    model = service.model(name)
    rows = model.embed(caller.clean(texts), caller.name)
    projection = None if asked.dimensions is None else projection_for(caller.name, rows.shape[1], asked.dimensions)
    if projection is not None:
        rows = projection.transform(rows)
    notes = (NOTE_OWN_TEXT,) if caller.tenant.per == "record" else ()

    def make(budget: Any) -> Payload:
        # OpenAI's rows have unit length, and its clients' stores rank by any distance.
        release = release_rows(rows, caller.tenant, epsilon, budget, notes=notes, projection=projection, renormalize=True)
        service.metrics.released(caller.name, len(rows), epsilon)
        fields = {
            "object": "list",
            "data": _data(np.asarray(release.values, np.float32), asked.encoding_format),
            "model": name,
            # Numbers of tokens would tell the lengths of texts.
            "usage": {"prompt_tokens": 0, "total_tokens": 0},
            "hushvec": {"receipt": release.receipt.to_dict()},
        }
        return json_payload(fields, release.receipt, partial(service.work.part, caller.name))

    return run(make, rows.size)


def _data(rows: NDArray[np.float32], encoding: str) -> list[dict[str, Any]]:
    values: Any = rows if encoding == "float" else [base64.b64encode(row.astype("<f4").tobytes()).decode() for row in rows]
    return [{"object": "embedding", "index": index, "embedding": value} for index, value in enumerate(values)]


def projection_for(tenant: str, dimension: int, wanted: int) -> PublicProjection | None:
    if wanted > dimension:
        raise invalid(f"dimensions must be at most {dimension}, the model's, got {wanted}", "dimensions")
    return None if wanted == dimension else _projections(tenant, dimension, wanted, _PROJECTION_SEED)


_projections = Kept(PublicProjection.johnson_lindenstrauss, 16)  # one takes seconds to make


class PrivatizeRequest(Fields):
    """Rows of one length, each about another person unless the policy says otherwise."""

    vectors: Rows
    epsilon: Epsilon = None


@dataclass
class _Stream:
    """`PrivatizeRequest` as an Arrow stream."""

    vectors: NDArray[Any]
    epsilon: float | None


@endpoint(router, "/v1/privatize", PrivatizeRequest, "vectors", arrow=lambda body, most: _Stream(*read_vectors(body, most)))
def privatize(service: Service, caller: Caller, asked: PrivatizeRequest | _Stream, run: Run) -> Payload:
    """Vectors with noise. The whole request is one release."""
    rows = [asked.vectors]
    del asked.vectors  # the release takes the rows out of this list, so that they are let go
    count, size = len(rows[0]), rows[0].size
    require_rows(count, caller)
    epsilon = epsilon_of(caller.tenant, asked.epsilon)

    def make(budget: Any) -> Payload:
        release = release_rows(rows.pop(), caller.tenant, epsilon, budget)
        service.metrics.released(caller.name, count, epsilon)
        if isinstance(asked, _Stream):
            headers = receipt_headers(release.receipt)
            return Payload(write_vectors(release.values, headers), ARROW, headers)
        fields = {"vectors": release.values, "receipt": release.receipt.to_dict()}
        return json_payload(fields, release.receipt, partial(service.work.part, caller.name))

    return run(make, size)


# ---- private questions ----


MOST_FETCHED = 10_000

class _Question(Fields):
    """A question as a text or as a vector."""

    text: str | None = None
    vector: Vector | None = None
    model: str | None = None


class AskRequest(_Question):
    """A question as a text or as a vector."""

    fetch: int = Field(default=50, ge=1, le=MOST_FETCHED)
    epsilon: Epsilon = None


class RankRequest(_Question):
    """The same question, and what the holder sent back."""

    ids: list[int] | list[str]
    vectors: Rows
    k: int = Field(default=10, ge=1, le=MOST_FETCHED)


@endpoint(router, "/v1/ask", AskRequest, "questions")
def ask(service: Service, caller: Caller, asked: AskRequest, run: Run) -> Payload:
    """What to send to the holder: a released row, and how many documents to return. Charged."""
    # releases that point somewhere: a holder can search for them
    directions = sorted(mechanisms_offered(directions=True))
    if caller.tenant.mechanism not in directions:
        raise ServiceError(403, "not_in_policy", f"questions need mechanism {' or '.join(directions)} in the policy")
    epsilon = epsilon_of(caller.tenant, asked.epsilon)
    row = _row(service, caller, asked)

    def make(budget: Any) -> Payload:
        release = release_rows(row, caller.tenant, epsilon, budget)
        question = Question(unit(np.asarray(release.values, np.float32))[0], asked.fetch)
        service.metrics.released(caller.name, 1, epsilon)
        return json_payload({"question": json.loads(question.to_json()), "receipt": release.receipt.to_dict()}, release.receipt)

    return run(make)


@endpoint(router, "/v1/rank", RankRequest, "questions")
def rank(service: Service, caller: Caller, asked: RankRequest, run: Run) -> Payload:
    """The holder's documents ranked by the clean question. Costs nothing; the ranking is as private as the question."""
    row = _row(service, caller, asked)
    try:
        found = candidates(asked.ids, asked.vectors)
    except (TypeError, ValueError) as error:
        raise invalid(str(error), "vectors") from None
    if found.vectors.shape[1] != row.shape[1]:
        raise invalid(f"vectors must have {row.shape[1]} columns, got {found.vectors.shape[1]}", "vectors")
    ids, scores = ranked(row[0], found)
    return json_payload({"ids": ids[: asked.k].tolist(), "scores": scores[: asked.k].tolist()})


def _row(service: Service, caller: Caller, asked: _Question) -> NDArray[np.float32]:
    """Return the question as one row."""
    if (asked.text is None) == (asked.vector is None):
        raise invalid("one of text and vector must be given", "text")
    if asked.vector is not None:
        row: NDArray[np.float32] = asked.vector[None]
        if row.shape[1] == 0 or not np.isfinite(row).all():
            raise invalid("vector must hold finite numbers, at least 1", "vector")
        return row
    assert asked.text is not None
    require_texts([asked.text], caller, "text")
    return service.model(service.model_name(caller, asked.model)).embed(caller.clean([asked.text]), caller.name)
