"""LoRA adapters through PEFT, and a check that an adapter has trained. docs/lora.md is the guide."""

from hushvec.training.lora.check import AdapterChange, AdapterCheck, AdapterUnchangedError, BaseChangedError
from hushvec.training.lora.peft_models import add_lora

__all__ = ["AdapterChange", "AdapterCheck", "AdapterUnchangedError", "BaseChangedError", "add_lora"]
