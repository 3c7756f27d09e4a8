"""Measures of a search, with intervals: ranking, paired tests, cosines, times."""
