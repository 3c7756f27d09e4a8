"""NVFlare: a filter that clips and noises a client's update before it leaves the client. pip install 'hushvec[nvflare]'."""

from __future__ import annotations

from typing import Any

from hushvec._util import validate
from hushvec._util.lazy import needs_extra
from hushvec.training.federated import PrivateRounds
from hushvec.training.federated.updates import noise_of_rounds

with needs_extra("hushvec.integrations.nvflare", "nvflare"):
    from nvflare.apis.dxo import DXO, DataKind, from_shareable
    from nvflare.apis.dxo_filter import DXOFilter
    from nvflare.apis.fl_constant import ReturnCode
    from nvflare.apis.shareable import Shareable, make_reply

RECEIPT = "hushvec_receipt"


class PrivateUpdates(DXOFilter):  # type: ignore[misc]   # nvflare has no types
    """A task result filter for a client: `hushvec.federated.PrivateRounds` of its weight differences.

    Args:
        clip_norm, delta, rounds, epsilon, noise_multiplier, store: as in `hushvec.federated.PrivateRounds`.
        persist_key: name of the client's ledger; None: "nvflare/" and the site's name. A later job of the same site goes on with
            the rounds that are left, and needs another name, and so another guarantee, for more.

    Raises:
        TypeError, ValueError: as `PrivateRounds`, when the job is made; nothing is stored then.

    Guarantees:
        As `PrivateRounds`: everything that the filter lets through is (epsilon, delta)-DP for all of the client's data. What is not
        an update goes nowhere: a result that is not a weight difference is an error, and whatever else comes with one (losses,
        numbers of steps, headers) is left out, as is the content of a failed task. The receipt is in the DXO's meta data, under
        `RECEIPT`. The filter sees the tasks that the job gives it to: give it to all that return something.

    Edge cases:
        A round that the ledger refuses is an error of the task, and NVFlare sends its code alone. Aggregators weigh clients by their
        numbers of steps, which are private: without them all weigh the same.

    Example:
        >>> from nvflare.apis.dxo import DXO, DataKind, from_shareable
        >>> from nvflare.apis.fl_context import FLContext
        >>> import numpy as np
        >>> from hushvec.integrations.nvflare import PrivateUpdates
        >>> filter = PrivateUpdates(clip_norm=1.0, epsilon=8.0, delta=1e-5, rounds=3, persist_key="site-1", store="memory")
        >>> update = DXO(DataKind.WEIGHT_DIFF, {"w": np.ones(4, np.float32)}, {"loss": 0.1})
        >>> sent = from_shareable(filter.process(update.to_shareable(), FLContext()))
        >>> sent.data["w"].shape, sorted(sent.meta)
        ((4,), ['filter_history', 'hushvec_receipt'])
    """

    def __init__(
        self, clip_norm: float, delta: float, rounds: int, epsilon: float | None = None, noise_multiplier: float | None = None,
        persist_key: str | None = None, store: str | None = None,
    ) -> None:
        super().__init__(supported_data_kinds=[DataKind.WEIGHT_DIFF], data_kinds_to_filter=None)
        # A job is written from attributes that are named as the arguments, on another machine than the client's.
        self.clip_norm, self.delta = validate.clip_norm(clip_norm), validate.delta(delta)
        self.rounds = validate.whole_number("rounds", rounds, at_least=1)
        noise_of_rounds(epsilon, noise_multiplier, self.delta, self.rounds, adjacency="replace-one")
        self.epsilon = None if epsilon is None else float(epsilon)
        self.noise_multiplier = None if noise_multiplier is None else float(noise_multiplier)
        self.persist_key, self.store = persist_key, store
        self._run: PrivateRounds | None = None

    def process(self, shareable: Shareable, fl_ctx: Any) -> Shareable:
        """Return the noisy update, and nothing else of the result."""
        code = shareable.get_return_code()
        if code != ReturnCode.OK:
            return make_reply(code)
        return self.process_dxo(from_shareable(shareable), shareable, fl_ctx).to_shareable()

    def process_dxo(self, dxo: DXO, shareable: Shareable, fl_ctx: Any) -> DXO:
        """Return a new DXO of noisy arrays, with the receipt."""
        if dxo.data_kind != DataKind.WEIGHT_DIFF:
            kind = getattr(dxo.data_kind, "value", dxo.data_kind)
            raise ValueError(f"data_kind must be {DataKind.WEIGHT_DIFF.value}: send differences of weights, got {kind}")
        if self._run is None:
            self._run = self._opened(fl_ctx)
        values, receipt = self._run.release(dxo.data)
        made = DXO(DataKind.WEIGHT_DIFF, values, {RECEIPT: receipt.to_json()})
        made.add_filter_history(type(self).__name__)
        return made

    def _opened(self, fl_ctx: Any) -> PrivateRounds:
        site = self.persist_key or fl_ctx.get_identity_name()
        if not site:
            raise ValueError("persist_key must be given where the site has no name")
        return PrivateRounds(
            clip_norm=self.clip_norm, delta=self.delta, epsilon=self.epsilon, noise_multiplier=self.noise_multiplier,
            rounds=self.rounds, persist_key=self.persist_key or f"nvflare/{site}", store=self.store,
        )
