"""Flower: `PrivateUpdates`, a mod that makes what a ClientApp sends private before it leaves the client."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hushvec._util.lazy import needs_extra
from hushvec.federated import PrivateRounds

with needs_extra("hushvec.integrations.flower", "flower"):
    from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MessageType, MetricRecord, RecordDict

RECEIPT_RECORD = "hushvec"


class PrivateUpdates:
    """A Flower mod: local differential privacy for what a client's training sends, for all of the client's data.

    Args:
        persist_key: name of this client's ledger, or a function of Flower's Context that gives it where one program is many clients:
            `lambda context: f"client-{context.node_config['partition-id']}"`. It must stay the same when the client restarts, which
            Context.node_id need not.
        weighted_by_key: the metric that the strategy weights by; the reply says 1.0 for every client.
        terms: clip_norm, delta, epsilon or noise_multiplier, rounds, store and budget, as in `hushvec.federated.PrivateRounds`.

    Guarantees:
        A reply to a message of type "train" holds the received arrays plus the noisy update, with the names, shapes and dtypes of
        the received ones, a receipt, and nothing else of the app's reply: (epsilon, delta)-DP for all rounds together, against the
        server too. The update is what training has changed, trained minus received. Arrays of whole numbers go back as they were
        received. Where the ledger is spent, an error goes back in place of parameters.

    Edge cases:
        Replies to other messages pass if they hold no arrays: metrics of evaluation are not protected. An update with NaN or Inf is
        refused, and the server learns that. Mods that stand before this one in the list see private replies, those behind it do not.

    Raises:
        TypeError, ValueError, BudgetError: as `PrivateRounds`; in a round: a message or a reply without exactly one ArrayRecord, or
            with others in the reply than were received. Flower sends the text of an error to the server.
        PrivacyBudgetExhaustedError: in a round, see `PrivateRounds.release`.

    Example:
        >>> from flwr.clientapp import ClientApp
        >>> from hushvec.integrations.flower import PrivateUpdates
        >>> private = PrivateUpdates(clip_norm=1.0, epsilon=8.0, delta=1e-5, rounds=10, persist_key="client-7", store="memory")
        >>> app = ClientApp(mods=[private])
    """

    def __init__(
        self, *, persist_key: str | Callable[[Context], str], weighted_by_key: str = "num-examples", **terms: Any
    ) -> None:
        self._persist_key, self._weighted_by_key, self._terms = persist_key, weighted_by_key, terms
        self._rounds: dict[str, PrivateRounds] = {}
        if not callable(persist_key):
            self._rounds_of(persist_key)

    def __call__(self, message: Message, context: Context, call_next: Callable[[Message, Context], Message]) -> Message:
        """What Flower calls for every message."""
        trains = message.metadata.message_type.split(".")[0] == MessageType.TRAIN
        before = _only_arrays("message", message)[1] if trains else {}   # copies: the app may write to what it gets
        reply = call_next(message, context)
        if reply.has_error():
            return reply
        if not trains:
            if reply.content.array_records:
                raise ValueError(f"reply to {message.metadata.message_type!r} must hold no arrays, which only training makes private")
            return reply
        key, trained = _only_arrays("reply", reply)
        forms = [[(name, array.shape, array.dtype) for name, array in arrays.items()] for arrays in (before, trained)]
        if forms[0] != forms[1]:
            raise ValueError("reply must hold the received arrays: the same names in this order, shapes and dtypes")
        update = {name: trained[name] - array for name, array in before.items() if array.dtype.kind == "f"}
        named = self._persist_key(context) if callable(self._persist_key) else self._persist_key
        values, receipt = self._rounds_of(named).release(update)
        sent = {name: array + values[name] if name in values else array for name, array in before.items()}
        metrics = next(iter(reply.content.metric_records), "metrics")
        records = {
            key: ArrayRecord({name: Array(np.asarray(array)) for name, array in sent.items()}),
            metrics: MetricRecord({self._weighted_by_key: 1.0}),
            RECEIPT_RECORD: ConfigRecord({"receipt": receipt.to_json()}),
        }
        return Message(RecordDict(records), reply_to=message)

    def _rounds_of(self, persist_key: str) -> PrivateRounds:
        if persist_key not in self._rounds:
            self._rounds[persist_key] = PrivateRounds(persist_key=persist_key, **self._terms)
        return self._rounds[persist_key]


def _only_arrays(what: str, message: Message) -> tuple[str, dict[str, np.ndarray]]:
    """The name of a message's one record of arrays, and copies of these."""
    records = message.content.array_records
    if len(records) != 1:
        raise ValueError(f"{what} must hold exactly 1 ArrayRecord, got {len(records)}")
    ((key, record),) = records.items()
    return key, {name: array.numpy() for name, array in record.items()}
