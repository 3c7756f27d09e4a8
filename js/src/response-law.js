// The law of randomized response: of 2^64 equally likely values, how many answer with the truth and with a given other label.
import { onCopies } from './core.js';

export function responseLaw(epsilon, labels) {
  const [[truth, other]] = onCopies([new BigUint64Array(2)], (core, place) => core.response_law(epsilon, labels, place));
  return { truth, other };
}
