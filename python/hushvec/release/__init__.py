"""Releases: check the arguments, charge the budget, run the mechanism, write the receipt. Everything above calls these."""

from typing import TYPE_CHECKING

from hushvec._util.lazy import at_first_use
from hushvec.release.vectors import Release, privatize

if TYPE_CHECKING:
    from hushvec.release.labels import LabelRelease, privatize_labels

__all__ = ["LabelRelease", "Release", "privatize", "privatize_labels"]

__getattr__, __dir__ = at_first_use(globals(), {"labels": "LabelRelease privatize_labels"})
