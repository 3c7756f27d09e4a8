"""Flower: `PrivateUpdates`, a mod that makes what a ClientApp sends private, and `PrivateStrategy`, what a ServerApp makes of it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from hushvec._util.lazy import needs_extra
from hushvec.errors import PrivacyBudgetExhaustedError
from hushvec.extend import ReceiptFields
from hushvec.training import PoissonSampler
from hushvec.training.federated import PrivateAverage, PrivateRounds

with needs_extra("hushvec.integrations.flower", "flower"):
    from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MessageType, MetricRecord, RecordDict
    from flwr.serverapp import Grid
    from flwr.serverapp.strategy import Strategy

RECEIPT_RECORD = "hushvec"
_log = logging.getLogger("flwr")


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

    def __init__(self, *, persist_key: str | Callable[[Context], str], weighted_by_key: str = "num-examples", **terms: Any) -> None:
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
        update = _update_of(before, trained)
        named = self._persist_key(context) if callable(self._persist_key) else self._persist_key
        values, receipt = self._rounds_of(named).release(update)
        metrics = next(iter(reply.content.metric_records), "metrics")
        records = {
            key: _moved(before, values),
            metrics: MetricRecord({self._weighted_by_key: 1.0}),
            RECEIPT_RECORD: ConfigRecord({"receipt": receipt.to_json()}),
        }
        return Message(RecordDict(records), reply_to=message)

    def _rounds_of(self, persist_key: str) -> PrivateRounds:
        if persist_key not in self._rounds:
            self._rounds[persist_key] = PrivateRounds(persist_key=persist_key, **self._terms)
        return self._rounds[persist_key]


class PrivateStrategy(Strategy):  # type: ignore[misc]   # without flwr
    """A Flower strategy around another one, which gets a noisy average of clipped updates in place of the clients' replies.

    It stands where Flower's DifferentialPrivacyServerSideFixedClipping and, with `adaptive`, ...AdaptiveClipping do. `average` is its
    PrivateAverage, `receipt` the receipt of all rounds so far.

    Args:
        strategy: FedAvg, FedAdam, ...: chooses the clients to ask, and makes the next model of one reply of weight 1.0: the model that
            was sent plus the average. What it does with single replies (medians, losses) finds nothing to do.
        sampling_probability: below 1, each message of the inner strategy is sent with this probability, independently of all else.
            The fraction that a strategy chooses itself is of a fixed size and is not accounted for.
        terms: clip_norm, clients, delta, epsilon or noise_multiplier, rounds, adjacency, adaptive, budget, journal and generator, as
            in `hushvec.federated.PrivateAverage`. `clients` is the number expected in a round, after sampling.

    Guarantees:
        As `PrivateAverage`, a client being a node: what `start` returns, and every message to a client, depends on replies only
        through the noisy averages. Metrics of replies are dropped; there is no evaluation on clients, as its metrics are not
        private: give `start` an evaluate_fn. A node counts once in a round, and only if it was asked in it. "add-remove" is about what
        a node sends; that it is connected is taken to be public. The server, its logs and its network see who was asked, and replies.

    Reference:
        docs/proofs/dp_sgd.md, "A sample of a sample".

    Edge cases:
        An error, and a reply without the model's arrays, of its names, shapes and dtypes and finite, counts as no reply: Flower's log
        says so, and a round without any reply is noise. Arrays of whole numbers stay as they are.

    Raises:
        TypeError, ValueError, BudgetError: as `PrivateAverage`.
        PrivacyBudgetExhaustedError: out of `start`, before clients are asked, where no round is left; before the first average, where
            the budget has too little left.

    Example:
        >>> from flwr.serverapp.strategy import FedAvg
        >>> from hushvec.integrations.flower import PrivateStrategy
        >>> strategy = PrivateStrategy(FedAvg(), clip_norm=1.0, clients=100, epsilon=4.0, delta=1e-5, rounds=10)
        >>> strategy.average.left
        10
    """

    def __init__(self, strategy: Strategy, *, sampling_probability: float = 1.0, **terms: Any) -> None:
        self.strategy, self._kept, self._source = strategy, sampling_probability, terms.get("generator")
        self.average = PrivateAverage(sampling_probability=sampling_probability, **terms)
        self.receipt: ReceiptFields | None = None
        self._sent: dict[str, np.ndarray] = {}
        self._asked: set[int] = set()

    def configure_train(self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid) -> Iterable[Message]:
        """Return the inner strategy's messages, or a Poisson sample of them."""
        if not self.average.left:
            raise PrivacyBudgetExhaustedError(f"all {self.average.rounds_released} rounds are released; more cost more epsilon")
        by_node = {one.metadata.dst_node_id: one for one in self.strategy.configure_train(server_round, arrays, config, grid)}
        nodes = sorted(by_node)
        chosen = PoissonSampler(len(nodes), self._kept, generator=self._source).sample() if nodes else []
        self._sent, self._asked = {name: array.numpy() for name, array in arrays.items()}, {nodes[place] for place in chosen}
        return [by_node[nodes[place]] for place in chosen]

    def aggregate_train(self, server_round: int, replies: Iterable[Message]) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """What the inner strategy makes of the noisy average."""
        values, self.receipt = self.average.aggregate(self._updates(replies), like=_update_of(self._sent, self._sent))
        key, weight = getattr(self.strategy, "arrayrecord_key", "arrays"), getattr(self.strategy, "weighted_by_key", "num-examples")
        content = RecordDict({key: _moved(self._sent, values), "metrics": MetricRecord({weight: 1.0})})
        reply = Message(content, dst_node_id=0, message_type=MessageType.TRAIN)
        made: tuple[ArrayRecord | None, MetricRecord | None] = self.strategy.aggregate_train(server_round, [reply])
        return made

    def configure_evaluate(self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid) -> Iterable[Message]:
        """No messages."""
        return []

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """Nothing."""
        return None

    def summary(self) -> None:
        """Log the settings."""
        _log.info("\t├──> Differential privacy: clip norm %g, %d rounds left", self.average.clip_norm, self.average.left)
        self.strategy.summary()

    def _updates(self, replies: Iterable[Message]) -> Iterator[dict[str, np.ndarray]]:
        for reply in replies:
            node = reply.metadata.src_node_id
            try:
                if reply.has_error():
                    raise ValueError(reply.error.reason)
                if node not in self._asked:
                    raise ValueError("it was not asked in this round, or has replied")
                update = _update_of(self._sent, _only_arrays("reply", reply)[1])
                if not all(np.isfinite(part).all() for part in update.values()):
                    raise ValueError("update must be finite")
            except Exception as error:   # whatever is in it: a client must not be able to stop the run
                _log.warning("reply of node %d does not count: %s", node, error)
            else:
                self._asked.remove(node)
                yield update


def _update_of(before: dict[str, np.ndarray], trained: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Trained minus received, without arrays of whole numbers."""
    forms = [[(name, array.shape, array.dtype) for name, array in arrays.items()] for arrays in (before, trained)]
    if forms[0] != forms[1]:
        raise ValueError("reply must hold the received arrays: the same names in this order, shapes and dtypes")
    with np.errstate(over="ignore", invalid="ignore"):
        return {name: np.asarray(trained[name] - array) for name, array in before.items() if array.dtype.kind == "f"}


def _moved(before: dict[str, np.ndarray], values: dict[str, Any]) -> ArrayRecord:
    """Received plus noisy update."""
    sent = {name: (array + values[name]).astype(array.dtype) if name in values else array for name, array in before.items()}
    return ArrayRecord({name: Array(np.asarray(array)) for name, array in sent.items()})


def _only_arrays(what: str, message: Message) -> tuple[str, dict[str, np.ndarray]]:
    """Return the name of a message's one record of arrays, and copies of these."""
    records = message.content.array_records
    if len(records) != 1:
        raise ValueError(f"{what} must hold exactly 1 ArrayRecord, got {len(records)}")
    ((key, record),) = records.items()
    return key, {name: array.numpy() for name, array in record.items()}
