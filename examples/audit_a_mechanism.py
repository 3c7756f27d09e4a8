"""Catching a mechanism that adds too little noise: samples of its code refute its claim."""

from hushvec.audit import audit_mechanism
from hushvec.mechanisms import Laplacian


class WithoutRootOfD(Laplacian):
    """A plausible mistake: the L2 sensitivity where the L1 sensitivity belongs."""

    @property
    def sensitivity(self) -> float:
        return 2 * self.clip_norm


for kind in (Laplacian, WithoutRootOfD):
    audit = audit_mechanism(kind(epsilon=2.0, dimension=16), samples=100_000)
    print(f"{kind.__name__}: claims epsilon 2.0, {'FLAGGED' if audit.flagged else 'not refuted'}")
    for result in audit.results[:2]:
        print(f"    {result.method:8} epsilon >= {result.epsilon_lower:.3f} (by {result.statistic})")
