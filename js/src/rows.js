// Rows as callers have them: a Float32Array of one row or, with `dimension`, of several; an array of numbers; an array of rows.
import { number, repr, wholeNumber } from './numbers.js';

function narrowed(row) {
  if (row instanceof Float32Array) return row;
  if (!Array.isArray(row) && !(row instanceof Float64Array)) throw new TypeError(`x must be a Float32Array, or an array of numbers or of rows, got ${typeof row}`);
  const found = Float32Array.from(row, (value) => {
    if (typeof value !== 'number') number('x', value);
    return value;
  });
  const lost = found.findIndex((value, i) => !Number.isFinite(value) && Number.isFinite(row[i]));
  if (lost >= 0) throw new RangeError(`x must be in the range of float32, got ${repr(row[lost])} (a float64 array keeps its range)`);
  return found;
}

/** The elements in a new or in the caller's own Float32Array, which is not written to, and how to give values back in the caller's form. */
export function rowsOf(x, dimension) {
  if (Array.isArray(x) && x.length > 0 && typeof x[0] === 'object') {
    const rows = x.map(narrowed);
    const columns = rows[0].length;
    const other = rows.findIndex((row) => row.length !== columns);
    if (other >= 0) throw new RangeError(`x must have rows of one length, got ${rows[other].length} in row ${other} and ${columns} in row 0`);
    if (columns === 0) throw new RangeError('x must have at least 1 column, got 0');
    const data = new Float32Array(rows.length * columns);
    rows.forEach((row, i) => data.set(row, i * columns));
    return { data, rows: rows.length, dimension: columns, inForm: (values) => rows.map((_, i) => values.slice(i * columns, (i + 1) * columns)) };
  }
  const data = narrowed(x);
  const columns = dimension === undefined ? data.length : wholeNumber('dimension', dimension, 1);
  if (columns === 0) throw new RangeError('x must have at least 1 column, got 0');
  if (data.length % columns) throw new RangeError(`x must have whole rows of dimension ${columns}, got ${data.length} elements`);
  return { data, rows: data.length / columns, dimension: columns, inForm: (values) => values };
}

/** RangeError for NaN or Inf, before anything is charged. */
export function requireFinite({ data, dimension }) {
  for (let i = 0; i < data.length; i += 1) {
    if (!Number.isFinite(data[i])) throw new RangeError(`x must be finite, got ${repr(data[i])} in row ${Math.floor(i / dimension)}`);
  }
}
