"""Audits: a lower bound on the epsilon of the code as it runs, so that a broken mechanism is caught.

    from hushvec.audit import audit_mechanism
    audit_mechanism(Gaussian(epsilon=1.0, delta=1e-5, dimension=8)).flagged

Three methods. "pair" tells two neighboring inputs apart, "one-run" guesses the coins behind one release, "repeats" looks for
noise that comes back. An audit can refute a claim and never prove one; docs/audit.md says what it can see.
"""

from hushvec.audit.codebook_target import CodebookTarget
from hushvec.audit.estimates import EpsilonEstimate
from hushvec.audit.one_run import audit_one_run, one_run_epsilon, one_run_p_value
from hushvec.audit.pair import audit_pair
from hushvec.audit.repeats import audit_repeats
from hushvec.audit.results import Audit, AuditResult, RepeatsResult
from hushvec.audit.run import METHODS, audit_mechanism
from hushvec.audit.targets import AuditTarget, LabelTarget, MechanismTarget

__all__ = [
    "METHODS",
    "Audit",
    "AuditResult",
    "AuditTarget",
    "CodebookTarget",
    "EpsilonEstimate",
    "LabelTarget",
    "MechanismTarget",
    "RepeatsResult",
    "audit_mechanism",
    "audit_one_run",
    "audit_pair",
    "audit_repeats",
    "one_run_epsilon",
    "one_run_p_value",
]

