// Releases of rows: check, charge, draw, and the receipt.
import { onCopies, version, withCore } from './core.js';
import { generatorOf } from './generator.js';
import { calibrated, gridOf, MECHANISMS, noisy } from './mechanisms.js';
import { choice, clipNorm as checkedClipNorm, flag, knownOptions, notNegative, positive, repr, wholeNumber } from './numbers.js';
import { NOTE_RELEASE, NOTE_SEED, receiptOf } from './receipts.js';
import { requireFinite, rowsOf } from './rows.js';

const PER = ['record', 'release'];
const OPTIONS = ['epsilon', 'delta', 'mechanism', 'clipNorm', 'normalize', 'renormalize', 'budget', 'per', 'notes', 'dimension', 'generator'];

export const unitRows = (rows, dimension) => onCopies([rows], (core, place) => core.unit_rows(place, rows.length / dimension, dimension))[0];

export function checkedNotes(notes) {
  if (!Array.isArray(notes) || !notes.every((note) => typeof note === 'string')) throw new TypeError('notes must be a sequence of strings');
  return notes;
}

/** Charge a budget, or anything with `consume(epsilon, delta)`, before anything is drawn. */
export async function charge(budget, generator, epsilon, delta) {
  if (typeof budget?.consume !== 'function') throw new TypeError('budget must have a method consume(epsilon, delta)');
  if (generator.seeded) throw new RangeError('budget must be None with a seeded generator: such a release has no privacy to account for');
  await budget.consume(epsilon, delta);
}

export const rowsPerPerson = (per, rows) => (choice('per', per, PER) === 'release' ? Math.max(1, rows) : 1);

/** Release rows with differential privacy, and a receipt that states the guarantee. */
export async function privatize(x, options = {}) {
  knownOptions(options, OPTIONS);
  const { epsilon, delta = 1e-5, mechanism = 'gaussian', clipNorm = 1, normalize = false, renormalize = false } = options;
  const { budget, per = 'record', notes = [], dimension: given } = options;
  const generator = generatorOf(options.generator);
  const rows = rowsOf(x, given);
  const { dimension } = rows;
  if (mechanism !== null && typeof mechanism === 'object' && mechanism.release) return mechanism.release(rows, { ...options, generator });
  choice('mechanism', mechanism, MECHANISMS);
  const plan = calibrated({ mechanism, epsilon, delta, clipNorm, dimension, rowsPerPerson: rowsPerPerson(per, rows.rows) });
  const directionsOnly = mechanism === 'privunit';
  if (flag('normalize', normalize) && clipNorm !== 1) throw new RangeError(`clip_norm must be 1.0 with normalize=True, got ${repr(clipNorm)}`);
  flag('renormalize', renormalize);
  checkedNotes(notes);
  const fields = generator.fields(plan.kind.halfWords);
  const receipt = receiptOf({
    mechanism,
    adjacency: 'replace-one',
    per,
    epsilon,
    delta: plan.delta,
    clip_norm: clipNorm,
    sensitivity: plan.sensitivity,
    sensitivity_norm: plan.kind.norm,
    ...plan.numbers,
    grid: gridOf(plan.kind, plan.numbers[plan.kind.parameter], clipNorm, fields.format_version),
    grade: 'exact',
    ...fields,
    rows: rows.rows,
    dimension,
    dtype: 'float32',
    normalize: normalize || directionsOnly,
    renormalize,
    nonfinite: 'raise',
    is_dp_claim: !generator.seeded,
    library_version: version,
    notes: [...(generator.seeded ? [NOTE_SEED] : []), ...(per === 'release' ? [NOTE_RELEASE] : []), ...notes],
    charge: null,
    projection: null,
    receipt_version: 1,
  });
  const data = budget === undefined ? rows.data : rows.data.slice(); // which the caller may change while the budget is charged
  if (budget !== undefined || normalize) requireFinite({ data, dimension });
  if (budget !== undefined) await charge(budget, generator, epsilon, plan.delta);
  const values = noisy(plan, normalize ? unitRows(data, dimension) : data, generator);
  return { values: rows.inForm(renormalize ? unitRows(values, dimension) : values), receipt };
}

// ---- noise without a receipt

/** Clip every row and add exact Gaussian noise of `sigma`, or Laplace noise of `scale`. */
export function clipAndNoise(x, { clipNorm, sigma, scale, dimension, generator }) {
  const rows = rowsOf(x, dimension);
  if ((sigma === undefined) === (scale === undefined)) throw new TypeError('sigma must be given, or scale in its place');
  const kind = scale === undefined ? { law: 0, parameter: 'sigma' } : { law: 1, parameter: 'scale' };
  const numbers = { [kind.parameter]: positive(kind.parameter, sigma ?? scale) };
  return rows.inForm(noisy({ kind, clipNorm: checkedClipNorm(clipNorm), numbers, dimension: rows.dimension }, rows.data, generatorOf(generator)));
}

function noise(law, name, length, size, generator) {
  const source = generatorOf(generator);
  const empty = new Float32Array(wholeNumber('dimensions', length, 0));
  notNegative(name, size);
  return onCopies([empty], (core, place) => {
    const { rounds, nonce } = source.next(core);
    core.fill_noise(rounds, nonce, place, length, law, size);
  })[0];
}

/** Independent Gaussian noise: a building block without a claim. */
export const gaussianNoise = (dimensions, sigma = 1, { generator } = {}) => noise(0, 'sigma', dimensions, sigma, generator);
/** Independent Laplace noise. */
export const laplacianNoise = (dimensions, scale = 1, { generator } = {}) => noise(1, 'scale', dimensions, scale, generator);

// ---- calibration

export const gaussianSigma = (epsilon, delta, sensitivity = 1) => withCore((core) => core.gaussian_sigma(epsilon, delta, sensitivity));
export const gaussianEpsilon = (delta, sigma, sensitivity = 1) => withCore((core) => core.gaussian_epsilon(delta, sigma, sensitivity));
export const gaussianDelta = (epsilon, sigma, sensitivity = 1) => withCore((core) => core.gaussian_delta(epsilon, sigma, sensitivity));
export const laplaceScale = (epsilon, sensitivity) => withCore((core) => core.laplace_scale(epsilon, sensitivity));
