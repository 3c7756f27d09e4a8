"""Exception classes that a caller may want to catch by name. Plain mistakes raise ValueError or TypeError."""

from __future__ import annotations

from typing import Any


class HushvecError(Exception):
    """Base of every exception class of hushvec. Each also derives from the built-in class that fits, such as ValueError."""


class ReceiptError(HushvecError, ValueError):
    """A receipt that cannot be read: not JSON, a field missing, unknown or of the wrong kind."""


class MissingExtraError(HushvecError, ImportError):
    """A feature needs a package that an extra of hushvec installs.

    The message names the extra, as in `pip install 'hushvec[text]'`.
    """

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(f"{feature} needs more packages: pip install 'hushvec[{extra}]'")
        self.extra = extra


class BudgetError(HushvecError, OSError):
    """The store of a budget cannot be used: not reachable, full, read-only, damaged, or lost in the middle of a call.

    Nothing is released after it. The last words of the message say what became of the charge.

    Args:
        reason: one sentence.
        charge_id: of the charge that was asked for, if one was.
        may_be_charged: True if the store failed while it was committing, so that the charge may or may not be recorded.
            To find out, repeat the charge with the same charge_id: it is charged once however often it is repeated.
    """

    def __init__(self, reason: str, charge_id: str | None = None, may_be_charged: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.charge_id = charge_id
        self.may_be_charged = may_be_charged

    def __str__(self) -> str:
        if self.charge_id is None:
            return self.reason
        if self.may_be_charged:
            return f"{self.reason}; repeat with charge_id={self.charge_id!r} to learn whether it was charged"
        return f"{self.reason}; nothing was charged"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.reason, self.charge_id, self.may_be_charged)


class PrivacyBudgetExhaustedError(HushvecError, RuntimeError):
    """A charge that does not fit into what is left of a budget. It was not recorded, and nothing is released.

    Args:
        message: what was asked for and what is left.
        max_epsilon, max_delta: the limits of a budget in (epsilon, delta), else None.
        consumed_epsilon, consumed_delta: what was spent before the refused charge, else None.
        max_rho, consumed_rho: the same for a budget in rho, else None.
        hint: what to do about it.
        refused: after `PrivacyBudget.charge_many`, the places in its list of all budgets that refused; after a charge with `people`,
            the places of those who were refused. The fields above are of the first of them.
        people: after a charge with `people`, the ids of those who were refused.
    """

    code = "PRIVACY_BUDGET_EXHAUSTED"

    def __init__(
        self, message: str, *, max_epsilon: float | None = None, consumed_epsilon: float | None = None,
        max_delta: float | None = None, consumed_delta: float | None = None, max_rho: float | None = None,
        consumed_rho: float | None = None, hint: str = "", refused: tuple[int, ...] = (), people: tuple[Any, ...] = (),
    ) -> None:
        super().__init__(message)
        self.max_epsilon = max_epsilon
        self.consumed_epsilon = consumed_epsilon
        self.max_delta = max_delta
        self.consumed_delta = consumed_delta
        self.max_rho = max_rho
        self.consumed_rho = consumed_rho
        self.hint = hint
        self.refused = refused
        self.people = people

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuilt, (type(self), self.args[0], dict(self.__dict__))


class AlreadyChargedError(HushvecError, RuntimeError):
    """A call that is repeated under its charge id was charged before. Nothing is charged or released again."""


class PrivacyBudgetWarning(UserWarning):
    """A budget with on_exhausted="warn" has spent more than its limit."""


class UtilityWarning(UserWarning):
    """Settings whose guarantee holds and whose results are known to be poor; the message names what does better."""


class StoreError(HushvecError, OSError):
    """The store of an index cannot be used: not reachable, locked, damaged or full, or lost in the middle of a call.

    What was charged before stays charged, and its release is kept: the same call again goes on with it and charges nothing.
    """


class SecureMemoryError(HushvecError, RuntimeError):
    """Memory for secrets that cannot be had as asked (`strict=True`), or that is no longer there: released, or wiped by a fork."""


class SecureMemoryWarning(UserWarning):
    """The operating system refused a part of the protection of memory for secrets; the rest of it holds."""


def _rebuilt(kind: type[PrivacyBudgetExhaustedError], message: str, fields: dict[str, Any]) -> PrivacyBudgetExhaustedError:
    return kind(message, **fields)
