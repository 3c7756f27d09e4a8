"""Attacks on an index: is this document in it, what are the vectors in it, and how much epsilon does that prove."""
