"""Audit of a training run by canaries: examples that a coin put in or left out, guessed from the trained model. docs/lora.md."""

from hushvec.training.canaries.audit import audit_training

__all__ = ["audit_training"]
