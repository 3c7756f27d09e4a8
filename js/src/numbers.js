// Checks of arguments with the texts of the Python package, its way of printing numbers, and exact arithmetic on float64.

/** What Python's repr prints of a value; of a number as of its float: the shortest digits that read back as the same. */
export function repr(value) {
  if (typeof value === 'string') return `'${value}'`;
  if (value === null) return 'None';
  if (typeof value === 'boolean') return value ? 'True' : 'False';
  if (typeof value !== 'number') return String(value);
  if (!Number.isFinite(value)) return Number.isNaN(value) ? 'nan' : value < 0 ? '-inf' : 'inf';
  const [digits, power] = (Object.is(value, -0) ? '-0e+0' : value.toExponential()).split('e');
  const exponent = Number(power);
  if (exponent < -4 || exponent >= 16) return `${digits}e${exponent < 0 ? '-' : '+'}${String(Math.abs(exponent)).padStart(2, '0')}`;
  const plain = Object.is(value, -0) ? '-0' : exponent < 0 ? value.toFixed(digits.replace(/[-.]/g, '').length - 1 - exponent) : String(value);
  return plain.includes('.') ? plain : `${plain}.0`;
}

const kind = (value) => (value === null ? 'null' : Array.isArray(value) ? 'array' : typeof value);

export function number(name, value) {
  if (typeof value !== 'number') throw new TypeError(`${name} must be a number, got ${kind(value)}`);
  if (!Number.isFinite(value)) throw new RangeError(`${name} must be finite, got ${repr(value)}`);
  return value;
}

export function positive(name, value) {
  if (number(name, value) <= 0) throw new RangeError(`${name} must be > 0, got ${repr(value)}`);
  return value;
}

export function notNegative(name, value) {
  if (number(name, value) < 0) throw new RangeError(`${name} must be >= 0, got ${repr(value)}`);
  return value;
}

export function delta(value, zeroAllowed = false) {
  if (zeroAllowed && value === 0) return value;
  const given = number('delta', value);
  if (!(given > 0 && given < 1)) throw new RangeError(`delta must be > 0 and < 1, got ${repr(given)}`);
  return given;
}

export function clipNorm(value) {
  if (positive('clip_norm', value) < 2 ** -100 || value > 2 ** 100) throw new RangeError(`clip_norm must be in [2^-100, 2^100], got ${repr(value)}`);
  return value;
}

export function wholeNumber(name, value, atLeast) {
  if (!Number.isSafeInteger(value)) throw new TypeError(`${name} must be a whole number, got ${typeof value === 'number' ? repr(value) : kind(value)}`);
  if (value < atLeast) throw new RangeError(`${name} must be >= ${atLeast}, got ${value}`);
  return value;
}

export function choice(name, value, accepted) {
  if (typeof value !== 'string') throw new TypeError(`${name} must be a string, got ${kind(value)}`);
  if (!accepted.includes(value)) throw new RangeError(`${name} must be one of ${accepted.map(repr).join(', ')}, got ${repr(value)}`);
  return value;
}

/** No option that nothing reads: a misspelled one would have its default. */
export function knownOptions(options, known) {
  const unknown = Object.keys(options).find((name) => !known.includes(name));
  if (unknown !== undefined) throw new TypeError(`options must be of ${known.join(', ')}, got ${repr(unknown)}`);
}

export function flag(name, value) {
  if (typeof value !== 'boolean') throw new TypeError(`${name} must be true or false, got ${kind(value)}`);
  return value;
}

// ---- exact arithmetic on numbers >= 0: every float64 is a whole multiple of 2^-1074

const bits = new BigUint64Array(1);
const double = new Float64Array(bits.buffer);
const SIGNIFICAND = (1n << 52n) - 1n;

/** value * 2^1074. */
export function exact(value) {
  double[0] = value;
  const power = bits[0] >> 52n;
  return power === 0n ? bits[0] : ((bits[0] & SIGNIFICAND) | (1n << 52n)) << (power - 1n);
}

function nextTo(value, step) {
  double[0] = value;
  bits[0] += step;
  return double[0];
}

/** The largest float at most numerator / divisor, a whole number. */
export function quotientDown(numerator, divisor) {
  const near = numerator / divisor;
  return exact(near) * BigInt(divisor) <= exact(numerator) ? near : nextTo(near, -1n);
}

/** A float that is at least value * sqrt(factor), a BigInt, and at most one unit in the last place above the smallest such. */
export function timesRootUp(value, factor) {
  const square = exact(value) ** 2n * factor;
  let root = value * Math.sqrt(Number(factor));
  while (exact(root) ** 2n > square && exact(nextTo(root, -1n)) ** 2n >= square) root = nextTo(root, -1n);
  while (exact(root) ** 2n < square) root = nextTo(root, 1n);
  return root;
}
