"""Attacks on released rows, each with its chance and the bound of the claim.

targets       what is attacked: released rows, the adversary's public rows, and a stranger's embeddings of the same texts
likelihoods   how likely a release is for each candidate, under every mechanism that is compared
membership    which of two rows is behind a release, and which rows are among the released ones, by likelihood ratio
linear        a linear decoder that is trained on releases
words         which words stand in the text behind a release, by a decoder trained on noise
alignment     a release carried into a stranger's embedding space by a few pairs, and named there (ALGEN)
inversion     a text searched for whose embedding explains a release (ZSInvert)
recognition   who is recognized in released rows: re-identification from the list
figures       one figure of an attack: value, chance, bound, and whether it succeeds
measure       one measurement: all attacks but inversion on one mechanism at one epsilon; measure_inversion: that one
findings      what the figures say, in sentences
"""
