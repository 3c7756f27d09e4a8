// The laws: what the noise on vectors is for a price, how far one person's rows can move, and what randomized response does.
import { withCore, onCopies } from './core.js';
import { clipNorm as checkedClipNorm, delta as checkedDelta, positive, quotientDown, repr, timesRootUp } from './numbers.js';

// law: its number in the core (cpp/include/hushvec/noise.hpp). factor: of how many squares of 2 clip_norm the squared sensitivity is the sum,
// for rows of one person and a dimension.
export const KINDS = {
  gaussian: { law: 0, parameter: 'sigma', norm: 'l2', takesDelta: true, halfWords: true, factor: (rows) => rows },
  empirical: { law: 0, parameter: 'sigma', norm: 'l2', takesDelta: true, halfWords: true, factor: (rows) => rows },
  laplacian: { law: 1, parameter: 'scale', norm: 'l1', takesDelta: false, halfWords: true, factor: (rows, dimension) => rows ** 2n * dimension },
  privunit: { parameter: 'sigma', norm: 'l2', takesDelta: false, halfWords: false, factor: (rows) => rows ** 2n },
};
export const MECHANISMS = ['gaussian', 'laplacian', 'privunit'];

export const sensitivityOf = (kind, clipNorm, rows, dimension) => timesRootUp(2 * clipNorm, kind.factor(BigInt(rows), BigInt(dimension)));

export const gridOf = (kind, noise, clipNorm, version) =>
  withCore((core) => (kind.law === undefined ? core.privunit_grid(noise) : core.exact_grid(noise, clipNorm, Number(version === 3))));

/** sigma or scale as the core takes it: rounded up to float32. */
function asUsed(name, value, clipNorm) {
  if (!(value >= 2 ** -100 && value <= 2 ** 100)) throw new RangeError(`${name} must be in [2^-100, 2^100], got ${repr(value)}`);
  return withCore((core) => core.noise_as_used(value, clipNorm));
}

function privunitLaw(epsilon) {
  const [law] = onCopies([new Float64Array(2)], (core, place) => core.privunit_law(epsilon, place));
  return { cap_probability: law[0], threshold: law[1] };
}

/** The law of randomized response: of 2^64 equally likely values, how many answer with the truth and with a given other label. */
export function responseLaw(epsilon, labels) {
  const [[truth, other]] = onCopies([new BigUint64Array(2)], (core, place) => core.response_law(epsilon, labels, place));
  return { truth, other };
}

/** Every argument checked, and the noise for it: what is released, at which cost. */
export function calibrated({ mechanism, epsilon, delta, clipNorm, dimension, rowsPerPerson }) {
  const kind = KINDS[mechanism];
  checkedClipNorm(clipNorm);
  if (epsilon === undefined) throw new TypeError(`epsilon must be given for mechanism ${repr(mechanism)}`);
  positive('epsilon', epsilon);
  checkedDelta(delta, !kind.takesDelta);
  const sensitivity = sensitivityOf(kind, clipNorm, rowsPerPerson, dimension);
  const numbers = { sigma: null, scale: null, cap_probability: null, threshold: null };
  if (mechanism === 'gaussian') numbers.sigma = withCore((core) => core.gaussian_sigma(epsilon, delta, sensitivity));
  else if (mechanism === 'laplacian') numbers.scale = withCore((core) => core.laplace_scale(epsilon, sensitivity));
  else {
    const ofRow = quotientDown(epsilon, rowsPerPerson);
    if (!(ofRow >= 2 ** -20 && ofRow <= 2 ** 12)) {
      const rows = rowsPerPerson === 1 ? '' : ` times the ${rowsPerPerson} rows of a person`;
      throw new RangeError(`epsilon must be in [2^-20, 4096]${rows} for privunit, got ${repr(epsilon)}`);
    }
    Object.assign(numbers, privunitLaw(ofRow));
    numbers.sigma = clipNorm / withCore((core) => core.privunit_mean(numbers.cap_probability, numbers.threshold));
  }
  numbers[kind.parameter] = asUsed(kind.parameter, numbers[kind.parameter], clipNorm);
  return { mechanism, kind, epsilon, delta: kind.takesDelta ? delta : 0, clipNorm, dimension, sensitivity, numbers };
}

/** The rows, noisy: clipped, or of privunit their directions. */
export function noisy({ kind, clipNorm, numbers, dimension }, rows, generator) {
  const count = rows.length / dimension;
  const [values] = onCopies([rows], (core, place) => {
    const { rounds, halfWords, nonce } = generator.next(core);
    if (kind.law !== undefined) core.clip_and_noise(rounds, halfWords, nonce, place, count, dimension, clipNorm, numbers[kind.parameter], kind.law);
    else core.privunit(rounds, nonce, place, count, dimension, numbers.cap_probability, numbers.threshold, numbers.sigma);
  });
  return values;
}
