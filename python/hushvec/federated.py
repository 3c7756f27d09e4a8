"""The short path of `hushvec.training.federated`."""

from hushvec.training.federated import (  # isort: skip
    AdaptiveClip, PrivateAverage, PrivateRounds, UpdateRelease, aggregate_updates, clip_and_noise_update,
)

__all__ = ["AdaptiveClip", "PrivateAverage", "PrivateRounds", "UpdateRelease", "aggregate_updates", "clip_and_noise_update"]
