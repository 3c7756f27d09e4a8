"""Federated learning: updates of models that leave a client, or are averaged on a server, with differential privacy.

    from hushvec.federated import clip_and_noise_update
    values, receipt = clip_and_noise_update(update, clip_norm=1.0, epsilon=8.0, delta=1e-5, rounds=10)

An update is a mapping, list or tuple of arrays of numpy or torch; docs/federated.md is the guide.
"""

from hushvec._util.lazy import at_first_use

with at_first_use(globals()):
    from hushvec.training.federated.average import AdaptiveClip, PrivateAverage, aggregate_updates
    from hushvec.training.federated.rounds import PrivateRounds
    from hushvec.training.federated.updates import UpdateRelease, clip_and_noise_update

__all__ = ["AdaptiveClip", "PrivateAverage", "PrivateRounds", "UpdateRelease", "aggregate_updates", "clip_and_noise_update"]
