"""Ghost clipping: sums of clipped per-example gradients without per-example gradients. docs/lora.md is the guide."""

from hushvec.training.ghost.clipping import GhostClipping
from hushvec.training.ghost.losses import next_token_losses
from hushvec.training.ghost.requirements import GhostClippingError

__all__ = ["GhostClipping", "GhostClippingError", "next_token_losses"]
