"""Checkpoints in the format of vec2text: an inversion model (T5 that reads an embedding) and a corrector that refines its text.

loading     folders and hub ids: configuration, weights, tokenizer, embedder, and which corrector belongs to which inversion model
model       the two networks and their search for tokens
inverter    Vec2TextInverter: hypotheses, their embeddings, the steps and beams of the corrector
"""

from hushvec._util.lazy import at_first_use

with at_first_use(globals()):
    from hushvec.text.inverters.vec2text.inverter import Vec2TextInverter

__all__ = ["Vec2TextInverter"]
