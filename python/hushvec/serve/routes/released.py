"""Rows that clients released on their own side: the service sees none without noise. It checks the receipt that comes with them,
stores them, and answers released questions with the nearest of them."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter
from numpy.typing import NDArray
from pydantic import Field

from hushvec.errors import ReceiptError
from hushvec.extend import released_rows
from hushvec.receipts import HOLDS, LabelReceipt, Receipt, receipt_from_dict, verify_receipt
from hushvec.retrieval.queries.question import unit
from hushvec.serve.bodies import Fields, Rows, Vector
from hushvec.serve.failures import ServiceError, invalid
from hushvec.serve.releases import Payload, json_payload
from hushvec.serve.routes import Run, endpoint
from hushvec.serve.service import Caller, Service, require_rows

router = APIRouter()
MOST_FOUND = 10_000
Id = Annotated[str, Field(min_length=1, max_length=255)]


class StoreRequest(Fields):
    """Released rows of one length, with the receipt of their release. A row replaces the one with its id."""

    ids: list[Id]
    vectors: Rows
    receipt: dict[str, Any]


class SearchRequest(Fields):
    """A released question, with its receipt."""

    vector: Vector
    receipt: dict[str, Any]
    k: int = Field(default=10, ge=1, le=MOST_FOUND)


@endpoint(router, "/v1/released", StoreRequest, "releases")
def store(service: Service, caller: Caller, asked: StoreRequest, run: Run) -> Payload:
    """Store rows that the client released. Nothing is charged: the client has paid."""
    require_rows(len(asked.vectors), caller)
    if len(set(asked.ids)) != len(asked.vectors):
        raise invalid(f"ids must name each of the {len(asked.vectors)} rows once, got {len(set(asked.ids))} different ones", "ids")
    _require_release(asked.vectors, asked.receipt, caller)
    terms = caller.tenant.releases
    assert terms is not None
    kept = service.released_rows.keep(caller.name, asked.ids, asked.vectors, asked.receipt, terms.rows)
    return json_payload({"stored": len(asked.ids), "rows": kept})


@endpoint(router, "/v1/released/search", SearchRequest, "releases")
def search(service: Service, caller: Caller, asked: SearchRequest, run: Run) -> Payload:
    """Return the stored rows with the largest cosine to the question, best first."""
    question = asked.vector[None]
    _require_release(question, asked.receipt, caller)
    ids, rows = service.released_rows.of(caller.name, question.shape[1])
    cosines = unit(rows) @ unit(question)[0] if ids else np.empty(0, np.float32)
    best = np.argsort(-cosines, kind="stable")[: asked.k]
    return json_payload({"ids": [ids[place] for place in best], "scores": cosines[best].tolist()})


def _require_release(rows: NDArray[np.float32], fields: dict[str, Any], caller: Caller) -> None:
    """Raise ServiceError unless a receipt of these rows holds, within the policy's terms.

    A receipt cannot show that its numbers are true. That noisy rows lie on its grid, as rows without noise do not, guards against
    a client's mistake, not against its will.
    """
    terms = caller.tenant.releases
    if terms is None:
        raise ServiceError(403, "not_in_policy", "the policy takes no rows that clients released")
    if not (rows.shape[1] and np.isfinite(rows).all()):
        raise invalid("vectors must hold finite numbers, at least 1 a row", "vectors")
    try:
        receipt = receipt_from_dict(fields)
        verdict = verify_receipt(receipt)
    except (ReceiptError, TypeError, ValueError) as error:
        raise _refused(str(error)) from None
    if verdict.status != HOLDS:
        raise _refused(f"the guarantee {verdict.status}")
    if not isinstance(receipt, Receipt) and not (isinstance(receipt, LabelReceipt) and receipt.codebook is not None):
        raise _refused("it must be of released vectors")
    if (count := released_rows(receipt)) != len(rows):
        raise _refused(f"it is of {count} rows, the vectors are {len(rows)}")
    if receipt.epsilon > terms.epsilon or receipt.delta > terms.delta:
        stated = f"{receipt.epsilon:g} and {receipt.delta:g}"
        raise _refused(f"epsilon and delta must be at most {terms.epsilon:g} and {terms.delta:g}, got {stated}")
    if isinstance(receipt, LabelReceipt):  # codes are public rows, in which nobody's are
        return
    if receipt.dimension != rows.shape[1]:
        raise _refused(f"it is of rows of {receipt.dimension}, the vectors have {rows.shape[1]}")
    if not receipt.renormalize and receipt.grid is not None and (np.remainder(rows.astype(np.float64), receipt.grid) != 0).any():
        raise _refused("the vectors are not on its grid, so they are not those that were released")


def _refused(reason: str) -> ServiceError:
    return ServiceError(422, "receipt_refused", f"the receipt is refused: {reason}", param="receipt")
