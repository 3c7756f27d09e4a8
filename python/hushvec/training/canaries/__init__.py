"""Audit of a training run by canaries: examples included by coin flips and guessed from the trained model. docs/lora.md."""

from hushvec.training.canaries.audit import audit_training

__all__ = ["audit_training"]
