"""Attacks on released rows, each with its chance and the bound of the claim.

rows        by likelihood: who is behind a release, which of two rows is, and which rows are among the released ones
decoders    trained on releases: words of a text, and a stranger's embeddings (ALGEN)
inversion   a text searched for whose embedding explains a release (ZSInvert)
measure     one measurement: all attacks but inversion on one mechanism at one epsilon
"""
