"""The study of private personalisation: a small language model learns private notes through LoRA, at several epsilons."""
