"""Releases: check the arguments, charge the budget, run the mechanism, write the receipt. Everything above calls these."""

from hushvec._util.lazy import at_first_use
from hushvec.release.vectors import Release, privatize

with at_first_use(globals()):
    from hushvec.release.labels import LabelRelease, privatize_labels

__all__ = ["LabelRelease", "Release", "privatize", "privatize_labels"]
