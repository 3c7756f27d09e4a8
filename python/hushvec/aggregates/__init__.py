"""Aggregates."""
from hushvec.aggregates.sums import *
from hushvec.aggregates.sums import private_sums, private_mean, SumsOfRows
