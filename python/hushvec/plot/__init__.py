"""Pictures of a trade: what noise leaves of a row, what an attack gains, what a budget has spent.

Each takes `ax`, a matplotlib Axes to draw on, and returns the Axes it drew on. Needs hushvec[plot] when called, not at import.
A picture of measurements is as private as they are.
"""

from typing import TYPE_CHECKING

from hushvec._util.lazy import at_first_use

if TYPE_CHECKING:
    from hushvec.plot.curves import budget_over_time, cosine
    from hushvec.plot.tradeoffs import utility_over_attack

__all__ = ["budget_over_time", "cosine", "utility_over_attack"]

__getattr__, __dir__ = at_first_use(globals(), {"curves": "budget_over_time cosine", "tradeoffs": "utility_over_attack"})
