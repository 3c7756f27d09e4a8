// What epsilon means to an attacker, in percentages that are never rounded down.

const MOST_DECIMALS = 6;

/**
 * The most that an attacker reaches who knows that the text is one of two, equally likely: (e^epsilon + delta) / (1 + e^epsilon).
 * Let a and b be the chances to be right about either text. The guarantee says a <= e^epsilon (1 - b) + delta, and the same with
 * a and b exchanged. The sum of both is (a + b) (1 + e^epsilon) <= 2 e^epsilon + 2 delta, and (a + b) / 2 is the chance to be right.
 */
export function amongTwo(epsilon, delta = 0) {
  return 1 / (1 + Math.exp(-epsilon)) + delta / (1 + Math.exp(epsilon));
}

/** The same among n candidates: e^epsilon / (e^epsilon + n - 1). */
export function amongMany(candidates, epsilon) {
  return 1 / (1 + (candidates - 1) * Math.exp(-epsilon));
}

/** A share as a percentage, rounded up, with as many decimals as it takes to stay below 100. */
export function percentUp(share) {
  for (let decimals = 1; decimals <= MOST_DECIMALS; decimals++) {
    const unit = 10 ** decimals;
    const rounded = Math.ceil(share * 100 * unit - 1e-7) / unit;
    if (rounded < 100) return `${rounded.toFixed(decimals)}\u00a0%`;
  }
  return "100\u00a0%";
}

export function percent(share) {
  return `${(100 * share).toFixed(share < 0.1 ? 1 : 0)}\u00a0%`;
}

/** In words, as the documentation has them. */
export function strength(epsilon) {
  if (epsilon <= 1) return "strong";
  if (epsilon <= 4) return "meaningful against long lists, weak between two candidates";
  if (epsilon <= 16) return "weak: someone who has the text in a list finds it";
  return "nearly nothing is guaranteed";
}

export function formatted(number) {
  return rounded(number, "halfExpand");
}

/** What is left of a budget: never more than there is. */
export function left(number) {
  return rounded(number, "floor");
}

/** What was taken from it: never less than it was. */
export function taken(number) {
  return rounded(number, "ceil");
}

/** Four digits, and all of those before the point. */
function rounded(number, roundingMode) {
  const digits = Math.max(4, Math.trunc(Math.abs(number)).toString().length);
  return Number(number).toLocaleString("en-US", { maximumSignificantDigits: Math.min(21, digits), roundingMode });
}

export function plural(count, one) {
  return `${formatted(count)} ${one}${count === 1 ? "" : "s"}`;
}
