"""Recall, precision and speed of the redaction rules."""
