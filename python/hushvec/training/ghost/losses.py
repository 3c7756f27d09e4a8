"""The loss of each text by itself, which clipping per example needs."""

from __future__ import annotations

from typing import Any

IGNORED = -100  # the label of tokens that carry no loss, as in transformers


def next_token_losses(logits: Any, labels: Any) -> Any:
    """Mean loss of the next token, one for each text.

    Args:
        logits: float [B, T, vocabulary], of a causal language model.
        labels: int [B, T], the tokens themselves; -100 where no loss is wanted. They are shifted here.

    Returns:
        Tensor [B]; 0 for a text without a label. A mean over the batch would tie the texts together: each must stay by itself.

    Example:
        >>> import torch
        >>> next_token_losses(torch.zeros(2, 3, 4), torch.tensor([[0, 1, 2], [3, 3, -100]])).exp()
        tensor([4., 4.])
    """
    import torch

    losses = torch.nn.functional.cross_entropy(
        logits[:, :-1].transpose(1, 2), labels[:, 1:], ignore_index=IGNORED, reduction="none"
    )
    counted = (labels[:, 1:] != IGNORED).sum(1).clamp(min=1)
    return losses.sum(1) / counted
