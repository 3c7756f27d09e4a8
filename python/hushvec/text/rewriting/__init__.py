"""Texts in, rewritten texts out: redact, cut, embed, release with noise, invert, put together again.

    text -> redactor -> chunks -> embedder -> hushvec.release (budget, receipt) -> inverter -> text
"""
