// Public codebooks: k public unit rows. A row is answered by one of them, by randomized response: epsilon-DP, whatever floating point makes of it.
import { onCopies } from './core.js';
import { answered, labelsDigest, preferringLaw, receiptOfAnswers, sha256 } from './labels.js';
import { positive } from './numbers.js';
import { NOTE_RELEASE } from './receipts.js';
import { charge, checkedNotes, rowsPerPerson } from './release.js';
import { requireFinite, rowsOf } from './rows.js';

const NOTE_CODEBOOK = 'rows were answered by a code of the public codebook named by codebook; it is taken to be independent of them';
const KINDS = { '<f4': Float32Array, '<u8': BigUint64Array, '<i8': BigInt64Array };
const [LOCAL, CENTRAL, END] = [0x04034b50, 0x02014b50, 0x06054b50]; // signatures of ZIP

/** An array of numpy's format: its shape and elements, or the text of a scalar one. */
function npyOf(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const [at, length] = bytes[6] === 1 ? [10, view.getUint16(8, true)] : [12, view.getUint32(8, true)];
  const header = new TextDecoder().decode(bytes.subarray(at, at + length));
  const [, type, order, sizes] = /'descr': '([^']+)', 'fortran_order': (True|False), 'shape': \(([^)]*)\)/.exec(header);
  const shape = sizes.split(',').filter((size) => size.trim()).map(Number);
  const data = bytes.slice(at + length).buffer;
  if (type.startsWith('<U')) return { shape, values: String.fromCodePoint(...new Uint32Array(data)).replace(/\0+$/, '') };
  if (!(type in KINDS) || (type === '<f4' && order === 'True')) throw new RangeError(`arrays must be float32 in C order or 64-bit integers, got ${type}`);
  return { shape, values: new KINDS[type](data) };
}

/** The arrays of an .npz file that numpy.savez wrote: a ZIP without compression. */
function npzOf(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let end = bytes.length - 22;
  while (view.getUint32(end, true) !== END) end -= 1;
  const arrays = {};
  let at = view.getUint32(end + 16, true);
  while (view.getUint32(at, true) === CENTRAL) {
    const [method, size, nameLength, extra, comment] = [view.getUint16(at + 10, true), view.getUint32(at + 24, true), ...[28, 30, 32].map((place) => view.getUint16(at + place, true))];
    const local = view.getUint32(at + 42, true);
    const name = new TextDecoder().decode(bytes.subarray(at + 46, at + 46 + nameLength));
    if (method !== 0 || view.getUint32(local, true) !== LOCAL) throw new RangeError(`${name} must not be compressed`);
    const begin = local + 30 + view.getUint16(local + 26, true) + view.getUint16(local + 28, true);
    arrays[name.replace(/\.npy$/, '')] = npyOf(bytes.subarray(begin, begin + size));
    at += 46 + nameLength + extra + comment;
  }
  return arrays;
}

export class PublicCodebook {
  constructor({ codes, sums, dimension, digest }) {
    Object.assign(this, { codes, sums, dimension, digest, size: codes.length / dimension });
    Object.freeze(this);
  }

  /** The codebook that Python's `PublicCodebook.save` wrote, from the bytes of the file. */
  static async load(file) {
    const bytes = file instanceof ArrayBuffer ? new Uint8Array(file) : new Uint8Array(file.buffer, file.byteOffset, file.byteLength);
    let arrays;
    try {
      arrays = npzOf(bytes);
      const shape = arrays.codes.shape;
      if (String(arrays.format.values[0]) !== '1') throw new RangeError(`format must be 1, got ${arrays.format.values[0]}`);
      if (shape.length !== 2 || shape[0] < 2 || String(arrays.sums.shape) !== String(shape)) throw new RangeError(`sums must have the shape of codes, got ${arrays.sums.shape}`);
    } catch (error) {
      throw new RangeError(`the file is not a saved codebook: ${error.message}`);
    }
    const { codes, sums } = arrays;
    const parts = [`hushvec public codebook 1\n`, `codes (${codes.shape.join(', ')})\n`, codes.values, `sums (${sums.shape.join(', ')})\n`, sums.values];
    const digest = await sha256(await new Blob(parts).arrayBuffer());
    if (digest !== arrays.digest.values) throw new RangeError(`the file has digest ${digest}, but says ${arrays.digest.values}`);
    return new PublicCodebook({ codes: codes.values, sums: sums.values, dimension: codes.shape[1], digest });
  }

  /** The number of the nearest code of each row: private, not to be released. */
  encode(x, { dimension = this.dimension } = {}) {
    return this.#nearest(rowsOf(x, dimension));
  }

  #nearest(rows) {
    if (rows.dimension !== this.dimension) throw new RangeError(`x must have ${this.dimension} columns, got ${rows.dimension}`);
    requireFinite(rows);
    return onCopies([rows.data, this.codes, new Int32Array(rows.rows)], (core, x, codes, nearest) => {
      core.nearest_codes(x, rows.rows, codes, this.size, this.dimension, nearest);
    })[2];
  }

  /** For `privatize`: the released rows are public ones, and `ids` their numbers. */
  mechanism(epsilon) {
    positive('epsilon', epsilon);
    return {
      release: async (rows, { budget, per = 'record', notes = [], generator }) => {
        const law = preferringLaw(epsilon, rowsPerPerson(per, rows.rows), this.size, 'codes');
        const codes = this.#nearest(rows);
        const ofRelease = per === 'release' ? [NOTE_RELEASE] : [];
        const digest = await labelsDigest(Array(this.size).keys());
        const receipt = receiptOfAnswers({
          per, epsilon, labelCount: this.size, digest, law, answers: rows.rows, scores: 'none', generator, notes: [...ofRelease, NOTE_CODEBOOK, ...checkedNotes(notes)], codebook: this.digest,
        });
        if (budget !== undefined) await charge(budget, generator, epsilon, 0);
        const ids = answered(codes, this.size, law, generator);
        return { values: rows.inForm(this.#decoded(ids, law)), ids, receipt };
      },
    };
  }

  /** For each answer the direction of the mean of the public rows, given the answer. */
  #decoded(ids, law) {
    const { dimension, size, sums } = this;
    const [truth, other] = [Number(law.truth) * 2 ** -64, Number(law.other) * 2 ** -64];
    const all = new Float64Array(dimension);
    for (let i = 0; i < size * dimension; i += 1) all[i % dimension] += sums[i];
    const values = new Float32Array(ids.length * dimension);
    ids.forEach((id, row) => {
      const mean = all.map((sum, j) => (truth - other) * sums[id * dimension + j] + other * sum);
      const length = Math.sqrt(mean.reduce((squares, one) => squares + one * one, 0));
      mean.forEach((one, j) => { values[row * dimension + j] = length > 0 ? one / length : 0; });
    });
    return values;
  }
}
