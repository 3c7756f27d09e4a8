// The mechanisms of a rewriting: what each guarantees, what kind of text comes out, and how often it keeps its subject.

import { percent } from "./bounds.js";

// Measured on the 80 invented notes that ship with hushvec; tests/serve/test_rewriting_mechanisms.py holds the shares to these.
const EPSILONS = [1, 2, 3, 4, 5, 6, 7, 8, 12, 16];
const NOTES = 80;
const CHANCE = 1 / NOTES;

const MECHANISMS = {
  randomized_response: {
    title: "Randomized response",
    means: "Recommended. Picks a public text at random; the nearest in meaning is the likeliest. The guarantee is epsilon, without exceptions.",
    kept: [0.02, 0.03, 0.05, 0.18, 0.4, 0.52, 0.77, 0.86, 0.95, 0.95],
  },
  privunit: {
    title: "PrivUnit: a noisy direction",
    means: "Turns the text's vector in a random direction and shows the public text that fits best. The guarantee is epsilon, without exceptions. Expect poorer texts.",
    kept: [0.02, 0.02, 0.04, 0.06, 0.09, 0.11, 0.17, 0.19, 0.36, 0.5],
  },
  gaussian: {
    title: "Gaussian noise",
    means: "Adds normal noise to the text's vector and shows the public text that fits best. The guarantee is weaker: epsilon may be exceeded with a small probability, delta, which is charged too. "
      + "Expect texts about something else.",
    kept: [0.01, 0.02, 0.02, 0.02, 0.02, 0.02, 0.02, 0.02, 0.03, 0.06],
  },
};

export function titleOf(mechanism) {
  return MECHANISMS[mechanism]?.title ?? mechanism;
}

export function meansOf(mechanism) {
  return MECHANISMS[mechanism]?.means ?? "";
}

/** The share of texts that keep their subject, between the measured ones on a straight line; null for a mechanism that was not measured. */
export function keptShare(mechanism, epsilon) {
  const shares = MECHANISMS[mechanism]?.kept;
  if (shares === undefined) return null;
  const next = EPSILONS.findIndex((one) => one >= epsilon);
  if (next === 0) return Math.min(shares[0], CHANCE + (shares[0] - CHANCE) * epsilon);
  if (next < 0) return shares.at(-1);
  const part = (epsilon - EPSILONS[next - 1]) / (EPSILONS[next] - EPSILONS[next - 1]);
  return shares[next - 1] + part * (shares[next] - shares[next - 1]);
}

/** What to expect at this epsilon. */
export function expectation(mechanism, epsilon) {
  const share = keptShare(mechanism, epsilon);
  if (share === null) return "";
  const about = `About ${percent(share)} of ${NOTES} test notes kept their subject at this epsilon.`;
  if (share >= 0.5) return about;
  if (share >= 4 * CHANCE) return `${about} Most released texts are about something else.`;
  return `${about} By chance it would be ${percent(CHANCE)}: the released text says nearly nothing about yours, and other texts get the same one. It is charged all the same.`;
}
