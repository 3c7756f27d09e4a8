// What a call draws from: ChaCha under a key that is made for the call, or under that of a seed.
import { bytes, randomBytes } from './core.js';
import { choice } from './numbers.js';

const ROUNDS = { chacha20: 20, chacha12: 12, chacha8: 8 };
const KEY_BYTES = 32;

/** A key stream. Without a seed every call draws a key of 256 bits by crypto.getRandomValues, which is wiped when the call ends. */
export class Generator {
  #seed;
  #nonce = 0;

  constructor({ cipher = 'chacha20' } = {}) {
    this.cipher = choice('cipher', cipher, Object.keys(ROUNDS));
    this.formatVersion = 3;
  }

  /** A stream that anyone with the seed can repeat: for tests and studies, never for a release. */
  static unsafeSeeded(seed, { cipher = 'chacha20', formatVersion = 1 } = {}) {
    const whole = typeof seed === 'bigint' ? seed : Number.isSafeInteger(seed) ? BigInt(seed) : undefined;
    if (whole === undefined) throw new TypeError(`seed must be a whole number, got ${typeof seed}`);
    if (whole < 0n || whole >> 256n) throw new RangeError(`seed must be in [0, 2^256), got ${whole}`);
    if (formatVersion !== 1 && formatVersion !== 3) throw new RangeError(`format_version must be 3 or 1 for ${cipher}, got ${formatVersion}`);
    const made = new Generator({ cipher });
    made.#seed = Uint8Array.from({ length: KEY_BYTES }, (_, i) => Number((whole >> BigInt(8 * i)) & 255n));
    made.formatVersion = formatVersion;
    return made;
  }

  get seeded() {
    return this.#seed !== undefined;
  }

  /** Writes the key of the next call to where the core takes it from, and wipes it. */
  next(core) {
    const place = bytes(core.key_place(), KEY_BYTES);
    if (this.#seed === undefined) randomBytes(place);
    else place.set(this.#seed);
    return { rounds: ROUNDS[this.cipher], halfWords: Number(this.formatVersion === 3), nonce: this.seeded ? this.#nonce++ : 0 };
  }

  /** The fields of a receipt that say what the noise was drawn from. */
  fields(hasHalfWords) {
    return {
      key_source: this.seeded ? 'seed' : 'os',
      cipher: this.cipher,
      rounds: ROUNDS[this.cipher],
      format_version: hasHalfWords ? this.formatVersion : 1,
    };
  }
}

export const DEFAULT_GENERATOR = new Generator();

export function generatorOf(given = DEFAULT_GENERATOR) {
  if (!(given instanceof Generator)) throw new TypeError(`generator must be a Generator, got ${typeof given}`);
  return given;
}
