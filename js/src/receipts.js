// Receipts of vectors and of labels: the JSON of the Python package byte for byte, and whether a guarantee follows from the numbers.
import { withCore } from './core.js';
import { ReceiptError } from './errors.js';
import { gridOf, KINDS, sensitivityOf } from './mechanisms.js';
import { exact, repr } from './numbers.js';

export const NOTE_SEED = 'key from a user-given seed: not a DP claim';
export const NOTE_FLOAT = 'floating-point: not protected';
export const NOTE_RELEASE = 'all rows are about one person; their number is treated as public';
export const NOTE_SOURCE = "scores are the model's own where its label was kept: they tell which answers are true, so epsilon bounds nothing";

const WORDS = 1n << 64n;
const ROUNDS = { aes256: 14, chacha20: 20, chacha12: 12, chacha8: 8 };
const FLOATS = ['epsilon', 'delta', 'clip_norm', 'sensitivity', 'sigma', 'scale', 'cap_probability', 'threshold', 'grid'];
const MOST_CHARACTERS = 1 << 20;

// ---- rules of fields: functions of name and value that throw

const refuse = (name, rule, value) => {
  throw new ReceiptError(`${name} must be ${rule}, got ${repr(value)}`);
};
const oneOf = (...accepted) => (name, value) => accepted.includes(value) || refuse(name, `one of ${accepted.map((one) => (typeof one === 'string' ? repr(one) : one)).join(', ')}`, value);
const real = (rule, holds) => (name, value) => (typeof value === 'number' && Number.isFinite(value) && holds(value)) || refuse(name, rule, value);
const optional = (rule) => (name, value) => value === null || rule(name, value);
const whole = (least, below = Infinity) => (name, value) =>
  (Number.isSafeInteger(value) && value >= least && value < below) || refuse(name, `a whole number >= ${least}${below < Infinity ? ` and < ${below}` : ''}`, value);
const boolean = (name, value) => typeof value === 'boolean' || refuse(name, 'true or false', value);
const text = (name, value) => (typeof value === 'string' && !/[\ud800-\udfff]/u.test(value)) || refuse(name, 'a string', value);
const digest = (name, value) => (typeof value === 'string' && /^[0-9a-f]{64}$/.test(value)) || refuse(name, '64 hexadecimal digits', value);
const words = (name, value) => (typeof value === 'string' && /^[1-9][0-9]{0,19}$/.test(value) && BigInt(value) < WORDS) || refuse(name, 'a whole number as text', value);
const texts = (name, value) => (Array.isArray(value) && value.every((one) => text(name, one))) || refuse(name, 'a list of strings', value);
const positive = real('> 0 and finite', (value) => value > 0);
const CHARGE = { ledger: digest, sequence: whole(2), charge_id: text, entry_hash: digest };
const charge = (name, value) => (value !== null && typeof value === 'object' && Object.keys(CHARGE).every((key) => CHARGE[key](`charge.${key}`, value[key]))
  && Object.keys(value).length === 4) || refuse(name, 'null or an object with ledger, sequence, charge_id and entry_hash', value);

const KEYS = { key_source: oneOf('os', 'seed'), cipher: oneOf(...Object.keys(ROUNDS)), rounds: oneOf(...Object.values(ROUNDS)), format_version: oneOf(1, 2, 3) };
const VECTORS = {
  mechanism: oneOf(...Object.keys(KINDS)),
  adjacency: oneOf('replace-one'),
  per: oneOf('record', 'release'),
  epsilon: real('>= 0 and finite', (value) => value >= 0),
  delta: real('>= 0 and < 1', (value) => value >= 0 && value < 1),
  clip_norm: real('in [2^-100, 2^100]', (value) => value >= 2 ** -100 && value <= 2 ** 100),
  sensitivity: positive,
  sensitivity_norm: oneOf('l1', 'l2'),
  sigma: optional(positive),
  scale: optional(positive),
  cap_probability: optional(real('> 0 and < 1, or null', (value) => value > 0 && value < 1)),
  threshold: optional(real('in [0, 128], or null', (value) => value >= 0 && value <= 128)),
  grid: optional(positive),
  grade: oneOf('exact', 'float'),
  ...KEYS,
  rows: whole(0),
  dimension: whole(1),
  dtype: oneOf('float32', 'float64', 'float16', 'bfloat16'),
  normalize: boolean,
  renormalize: boolean,
  nonfinite: oneOf('raise'),
  is_dp_claim: boolean,
  library_version: text,
  notes: texts,
  charge: optional(charge),
  projection: optional(digest),
  receipt_version: oneOf(1),
};
const LABELS = {
  mechanism: oneOf('randomized_response'),
  adjacency: VECTORS.adjacency,
  per: VECTORS.per,
  epsilon: positive,
  delta: VECTORS.delta,
  label_count: whole(2, 2 ** 24 + 1),
  labels_digest: digest,
  truth_values: words,
  other_values: words,
  answers: whole(0),
  scores: oneOf('none', 'uniform', 'source'),
  grade: oneOf('exact'),
  ...KEYS,
  is_dp_claim: boolean,
  library_version: text,
  notes: texts,
  charge: optional(charge),
  codebook: optional(digest),
  receipt_version: oneOf(1),
  receipt_kind: oneOf('labels'),
};

/** A receipt of exactly these fields, in the order of its JSON. ReceiptError otherwise. */
export function receiptOf(fields) {
  if (fields === null || typeof fields !== 'object' || Array.isArray(fields)) throw new ReceiptError('receipt must be an object with fields');
  const rules = Object.hasOwn(fields, 'receipt_kind') ? LABELS : VECTORS;
  const unknown = Object.keys(fields).find((name) => !Object.hasOwn(rules, name));
  if (unknown !== undefined) throw new ReceiptError(`receipt must not have the field ${repr(unknown)}: it is unknown`);
  const receipt = {};
  for (const [name, rule] of Object.entries(rules)) {
    if (!Object.hasOwn(fields, name)) throw new ReceiptError(`receipt must have the field ${repr(name)}`);
    rule(name, fields[name]);
    receipt[name] = fields[name];
  }
  return Object.freeze(receipt);
}

/** The receipt of a JSON text, which must not have a field twice. */
export function receiptFromJson(json) {
  if (json.length > MOST_CHARACTERS) throw new ReceiptError(`receipt must have at most ${MOST_CHARACTERS} characters, got ${json.length}`);
  let fields;
  try {
    fields = JSON.parse(json);
  } catch (error) {
    throw new ReceiptError(`receipt must be JSON: ${error.message}`);
  }
  const receipt = receiptOf(fields);
  const names = json.match(/"(?:[^"\\]|\\.)*"(?=\s*:)/g).length;
  if (names !== Object.keys(receipt).length + (receipt.charge ? Object.keys(receipt.charge).length : 0)) throw new ReceiptError('receipt must not have a field twice');
  return receipt;
}

/** The JSON text that the Python package writes of the same receipt. */
export function receiptToJson(receipt) {
  const lines = Object.entries(receiptOf(receipt)).map(([name, value]) => {
    const plain = FLOATS.includes(name) && value !== null ? repr(value) : JSON.stringify(value, null, 2).replaceAll('\n', '\n  ');
    return `  "${name}": ${plain}`;
  });
  return `{\n${lines.join(',\n')}\n}`;
}

// ---- verification

/** As C's %.{digits}g. */
function general(value, digits) {
  if (!Number.isFinite(value)) return repr(value);
  const [significand, exponent] = value.toExponential(digits - 1).split('e');
  if (exponent >= -4 && exponent < digits) return repr(Number(value.toPrecision(digits))).replace(/\.0$/, '');
  return `${Number(significand)}e${exponent < 0 ? '-' : '+'}${String(Math.abs(exponent)).padStart(2, '0')}`;
}

function claimFaults(receipt, kind, rows) {
  const { mechanism, epsilon, delta, clip_norm: clipNorm, dimension, sigma, scale, cap_probability: probability, threshold } = receipt;
  if (mechanism === 'privunit') {
    const ofRow = withCore((core) => core.privunit_epsilon(probability, threshold));
    if (exact(ofRow) * BigInt(rows) <= exact(epsilon)) return [];
    return [`cap_probability = ${repr(probability)} at threshold = ${repr(threshold)} gives epsilon = ${general(ofRow * rows, 6)}, more than the ${repr(epsilon)} stated`];
  }
  if (mechanism === 'laplacian') {
    const square = exact(2 * clipNorm) ** 2n * BigInt(rows) ** 2n * BigInt(dimension);
    if ((exact(scale) * exact(epsilon)) ** 2n >= square << 2148n) return [];
    const sensitivity = sensitivityOf(kind, clipNorm, rows, dimension);
    return [`scale = ${repr(scale)} at L1 sensitivity ${repr(sensitivity)} gives epsilon = ${general(sensitivity / scale, 6)}, more than the ${repr(epsilon)} stated`];
  }
  const distance = sensitivityOf(kind, clipNorm, rows, dimension);
  const real = withCore((core) => core.gaussian_delta(epsilon, sigma, distance));
  if (delta === 0 || real <= delta) return [];
  const needed = withCore((core) => core.gaussian_epsilon(delta, sigma, distance));
  return [`sigma = ${repr(sigma)} at L2 sensitivity ${repr(distance)} gives delta = ${general(real, 4)} at epsilon = ${repr(epsilon)}, `
    + `more than the ${repr(delta)} stated; at that delta it gives epsilon = ${general(needed, 6)}`];
}

function noiseFaults(receipt, kind) {
  const noise = receipt[kind.parameter];
  const grid = gridOf(kind, noise, receipt.clip_norm, receipt.format_version);
  const expected = receipt.grade === 'exact' ? grid : null;
  if (Math.fround(noise) !== noise) return [`${kind.parameter} must be a float32, got ${repr(noise)}`];
  return receipt.grid === expected ? [] : [`grid must be ${repr(expected)} for this ${kind.parameter}, clip_norm and grade, got ${repr(receipt.grid)}`];
}

function vectorFaults(receipt) {
  const { mechanism, delta, dimension, rows, per, normalize, clip_norm: clipNorm } = receipt;
  const kind = KINDS[mechanism];
  const ofPerson = per === 'release' ? Math.max(1, rows) : 1;
  const [setting, faults] = [[], []];
  if (receipt.sensitivity_norm !== kind.norm) setting.push(`sensitivity_norm must be ${repr(kind.norm)} for ${mechanism}, got ${repr(receipt.sensitivity_norm)}`);
  const needed = sensitivityOf(kind, clipNorm, ofPerson, dimension);
  if (receipt.sensitivity < needed) {
    setting.push(`sensitivity must be >= ${repr(needed)} for clip_norm = ${repr(clipNorm)}, per = ${repr(per)}, ${rows} rows of ${dimension}, got ${repr(receipt.sensitivity)}`);
  }
  if (!kind.takesDelta && delta !== 0) setting.push(`delta must be 0 for ${mechanism}, got ${repr(delta)}`);
  if (kind.takesDelta && delta === 0) setting.push(`delta must be > 0 for ${mechanism}, got 0.0`);
  if (mechanism === 'privunit' && !normalize) setting.push('normalize must be true for privunit, which releases directions');
  if (mechanism !== 'privunit' && normalize && clipNorm !== 1) setting.push(`clip_norm must be 1.0 with normalize, got ${repr(clipNorm)}`);
  const law = mechanism === 'privunit' ? ['sigma', 'cap_probability', 'threshold'] : [kind.parameter];
  for (const name of ['sigma', 'scale', 'cap_probability', 'threshold']) {
    if (!law.includes(name) && receipt[name] !== null) faults.push(`${name} must be null for ${mechanism}, got ${repr(receipt[name])}`);
  }
  if (receipt[kind.parameter] === null) return [...setting, `${kind.parameter} must be given for ${mechanism}`, ...faults];
  const missing = law.filter((name) => receipt[name] === null);
  if (missing.length > 0) return [...setting, `${law.slice(1).join(' and ')} must be given for ${mechanism}`, ...faults];
  for (const found of [noiseFaults, claimFaults]) {
    try {
      faults.push(...found(receipt, kind, ofPerson));
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      faults.push(error.message);
    }
  }
  return [...setting, ...faults];
}

const unitOf = ({ per, answers }) => (per === 'record' || answers === 1 ? 'one answer' : `all ${answers} answers of one person`);

const BITS = 320n; // behind the point of the logarithm below

/** atanh(numerator / denominator) for a quotient up to 1/3, wrong by less than 2^9 units of the last bit. */
function atanh(numerator, denominator) {
  let power = (numerator << BITS) / denominator;
  const square = (power * power) >> BITS;
  let sum = 0n;
  for (let odd = 1n; power > 0n; odd += 2n, power = (power * square) >> BITS) sum += power / odd;
  return sum;
}

/** At least ln(truth / other) in units of 2^-BITS, for truth > other. */
function logarithmUp(truth, other) {
  let [halvings, low] = [0n, other];
  for (; low * 2n <= truth; low *= 2n) halvings += 1n;
  return 2n * (halvings * atanh(1n, 3n) + atanh(truth - low, truth + low)) + (1n << 17n);
}

function labelFaults(receipt) {
  const { epsilon, delta, label_count: count, per, answers } = receipt;
  const [truth, other] = [BigInt(receipt.truth_values), BigInt(receipt.other_values)];
  const faults = delta === 0 ? [] : [`delta must be 0 for ${receipt.mechanism}, got ${repr(delta)}`];
  const total = truth + BigInt(count - 1) * other;
  if (total !== WORDS) return [...faults, `truth_values + ${count - 1} other_values must be 2^64 for ${count} labels, got ${total}`];
  if (truth < other) return [...faults, `truth_values must be >= other_values, got ${truth} and ${other}`];
  const times = per === 'release' ? Math.max(1, answers) : 1;
  const needed = truth === other ? 0n : logarithmUp(truth, other) * BigInt(times);
  if (needed << (1074n - BITS) <= exact(epsilon)) return faults;
  return [...faults, `truth_values / other_values gives epsilon = ${(Number(needed) * 2 ** -Number(BITS)).toPrecision(6)} for ${unitOf(receipt)}, more than the ${repr(epsilon)} stated`];
}

function keyFaults({ cipher, rounds, format_version: version, mechanism, grade }) {
  const faults = rounds === ROUNDS[cipher] ? [] : [`rounds must be ${ROUNDS[cipher]} for ${cipher}, got ${rounds}`];
  const versions = [cipher === 'aes256' ? 2 : 1, ...(KINDS[mechanism]?.halfWords && grade === 'exact' ? [3] : [])];
  if (!versions.includes(version)) faults.push(`format_version must be ${versions.join(' or ')} for ${cipher}, got ${version}`);
  return faults;
}

/** Whether the guarantee follows from the numbers: "holds", "does not hold" or "not a DP claim", and why. Of an object or a JSON text. */
export function verifyReceipt(given) {
  const receipt = typeof given === 'string' ? receiptFromJson(given) : receiptOf(given);
  const isOfLabels = 'receipt_kind' in receipt;
  const why = receipt.key_source === 'seed' ? [NOTE_SEED] : [];
  if (isOfLabels ? receipt.scores === 'source' : receipt.grade === 'float') why.unshift(isOfLabels ? NOTE_SOURCE : NOTE_FLOAT);
  const faults = [...(isOfLabels ? labelFaults(receipt) : vectorFaults(receipt)), ...keyFaults(receipt)];
  if (receipt.is_dp_claim) faults.push(...why.map((reason) => `is_dp_claim must be false: ${reason}`));
  if (faults.length > 0) return { status: 'does not hold', reasons: faults };
  const unit = isOfLabels ? `what is behind ${unitOf(receipt)}` : receipt.per === 'record' ? 'one row' : 'all rows of the release';
  const guarantee = (verb) => `(${repr(receipt.epsilon)}, ${isOfLabels ? '0.0' : repr(receipt.delta)})-DP under replacement of ${unit} ${verb}`;
  if (receipt.is_dp_claim) return { status: 'holds', reasons: [guarantee(`follows from the ${isOfLabels ? 'law' : 'parameters'}`)] };
  const otherwise = isOfLabels ? `with a secret key${receipt.scores === 'source' ? ' if the labels alone were released' : ''}` : 'in real arithmetic with a secret key';
  return { status: 'not a DP claim', reasons: [...(why.length ? why : ['the receipt itself makes no claim']), guarantee(`would hold ${otherwise}`)] };
}
