"""The short path of `hushvec.training.federated`."""

from typing import TYPE_CHECKING

from hushvec._util.lazy import at_first_use

if TYPE_CHECKING:
    from hushvec.training.federated import AdaptiveClip as AdaptiveClip
    from hushvec.training.federated import PrivateAverage as PrivateAverage
    from hushvec.training.federated import PrivateRounds as PrivateRounds
    from hushvec.training.federated import UpdateRelease as UpdateRelease
    from hushvec.training.federated import aggregate_updates as aggregate_updates
    from hushvec.training.federated import clip_and_noise_update as clip_and_noise_update

__getattr__, __dir__ = at_first_use(
    globals(),
    {"hushvec.training.federated": "AdaptiveClip PrivateAverage PrivateRounds UpdateRelease aggregate_updates clip_and_noise_update"},
)
