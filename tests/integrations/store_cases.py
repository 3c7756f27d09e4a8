"""What the tests of all stores share: indexes with a budget, and tables of bad documents."""

from typing import Any, NamedTuple

import hushvec as hv
from hushvec.retrieval import PrivateIndex, VectorNoise
from integrations.adapter_cases import DIMENSION

__all__ = ["DIMENSION", "FAINT", "Case", "index_without_room", "noisy_index"]

# Gaussian noise far below the differences between the scores of random rows.
FAINT = {"mechanism": "gaussian", "epsilon": 1e6, "delta": 0.1}


class Case(NamedTuple):
    """Documents that are refused.

    Args:
        texts: of the documents, or the documents themselves.
        options: of the call.
        error, message: that it raises.
    """

    texts: Any
    options: dict[str, Any]
    error: type[Exception]
    message: str


def noisy_index(limit=10.0):
    """An index with PrivUnit on documents at epsilon 2, and its budget."""
    budget = hv.PrivacyBudget(limit)
    return PrivateIndex(DIMENSION, store="numpy", documents=VectorNoise(epsilon=2.0, budget=budget)), budget


def index_without_room():
    """The same with a budget for one release."""
    return noisy_index(3.0)
