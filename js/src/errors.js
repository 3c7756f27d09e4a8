// Errors of the package. A wrong value is a RangeError and a wrong kind of thing a TypeError, as in Python ValueError and TypeError.

export class ReceiptError extends Error {
  name = 'ReceiptError';
}

export class BudgetError extends Error {
  name = 'BudgetError';
}

/** A charge would exceed the budget: nothing was charged or released. */
export class PrivacyBudgetExhaustedError extends BudgetError {
  name = 'PrivacyBudgetExhaustedError';
  code = 'PRIVACY_BUDGET_EXHAUSTED';
  hint = 'Release less, ask for less epsilon, or begin a new period of privacy with another budget.';

  constructor(name, asked, limit, consumed) {
    super(`the budget must have ${name} ${asked} left, got ${consumed} of ${limit} consumed`);
    if (name === 'epsilon') [this.maxEpsilon, this.consumedEpsilon] = [limit, consumed];
    else [this.maxDelta, this.consumedDelta] = [limit, consumed];
  }
}
