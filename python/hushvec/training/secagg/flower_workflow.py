"""Encodings through Flower's `SecAggPlusWorkflow` and `secaggplus_mod`, whose own quantization is then the identity."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushvec.training.secagg.encoder import Encoder

_MOST_BITS = 31  # the mod quantizes to int32


def workflow_arguments(encoder: Encoder) -> dict[str, Any]:
    """max_weight, clipping_range, quantization_range and modulus_range of Flower's `SecAggPlusWorkflow` for these encodings.

    Every client answers with num_examples = 1. docs/federated.md has both sides.

    Raises:
        ValueError: an encoder of 32 bits, which the mod's int32 cannot hold.

    Example:
        >>> from hushvec.secagg import Encoder, workflow_arguments
        >>> encoder = Encoder(dimension=100, clip_norm=1.0, bits=16, clients=10, epsilon=2.0, delta=1e-5)
        >>> workflow_arguments(encoder)["modulus_range"]
        65536
    """
    if encoder.bits > _MOST_BITS:
        raise ValueError(f"bits must be <= {_MOST_BITS} for Flower, got {encoder.bits}")
    most = 2**encoder.bits - 1
    return {"max_weight": 1.0, "clipping_range": most / 2, "quantization_range": most, "modulus_range": most + 1}


def to_parameters(encoder: Encoder, encoding: NDArray[np.uint32]) -> list[NDArray[np.float64]]:
    """The parameters that a client returns for its encoding."""
    return [encoding - workflow_arguments(encoder)["clipping_range"]]


def from_parameters(encoder: Encoder, parameters: list[NDArray[np.float64]], *, clients: int) -> NDArray[np.int64]:
    """The sum modulo 2^bits, for `Encoder.decode`, of what the workflow gives to `aggregate_fit` for this many clients.

    Raises:
        ValueError: what is no such sum of so many clients.
    """
    terms = workflow_arguments(encoder)
    weight = terms["modulus_range"] - clients   # that of all clients, as the workflow sees it: modulo 2^bits too
    sums = np.asarray(parameters[0]) * (weight / terms["quantization_range"]) + clients * terms["clipping_range"]
    whole = np.rint(sums)
    if not (np.abs(sums - whole) < min(0.25, clients**2 * 2.0 ** (encoder.bits - 48))).all():   # what averaging of floats may err by
        raise ValueError(f"parameters must be a sum of {clients} encodings, got other numbers")
    total: NDArray[np.int64] = whole.astype(np.int64) % int(terms["modulus_range"])
    return total
