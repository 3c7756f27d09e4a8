"""Rewriting of texts: redact, split, embed, release with noise, invert, join.

    text -> redactor -> chunks -> embedder -> hushvec.release (budget, receipt) -> inverter -> text
"""
