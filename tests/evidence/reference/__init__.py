"""A slow, independent implementation of docs/format.md, written from that page alone.

chacha       the key stream of ChaCha, its domains and the sample layout (sections 1 and 2)
aes          the key stream of AES-256 (section 13)
stream       the words of a call, whichever its cipher
exact        the released integer of one sample, proved by interval arithmetic (sections 3 and 5)
clip         the clipped row and the grid (sections 4 and 5)
half         the words of a call of version 3 (section 16)
release      a whole call: rows in, released values out
privunit     the same for PrivUnitG (section 8)
adversarial  samples placed next to a rounding boundary
checks       statistical tests that return a p-value

Nothing here imports hushvec.
"""
