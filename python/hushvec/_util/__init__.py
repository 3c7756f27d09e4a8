"""Helpers for every layer: checks of arguments, lines of text, atomic files, progress. Private to hushvec."""
