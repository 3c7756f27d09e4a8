// Calls into the compiled core. Its memory may hold secrets and half-made states after an error: then it is overwritten and dropped, and the
// next call makes a new instance of the compiled module.
import { loadModule } from '#platform';

const compiled = await loadModule();

const LARGEST_KEPT = 64 << 20; // bytes of memory, which never shrinks: a larger instance is dropped after its call
const MOST_RANDOM_BYTES = 65536; // that crypto.getRandomValues gives at a time
const NOT_SUPPORTED = 52; // ENOSYS of WASI

let instance;

/** Bytes of the core's memory, for as long as no call lets it grow. */
export const bytes = (place, length) => new Uint8Array(instance.exports.memory.buffer, place, length);

function textAt(place) {
  const found = bytes(place);
  return new TextDecoder().decode(found.slice(0, found.indexOf(0)));
}

/** Fill bytes from the operating system's generator, by way of crypto.getRandomValues. */
export function randomBytes(target) {
  for (let at = 0; at < target.length; at += MOST_RANDOM_BYTES) crypto.getRandomValues(target.subarray(at, at + MOST_RANDOM_BYTES));
}

const system = {
  environ_sizes_get(count, size) {
    new Uint32Array(instance.exports.memory.buffer)[count >> 2] = 0;
    new Uint32Array(instance.exports.memory.buffer)[size >> 2] = 0;
    return 0;
  },
  environ_get: () => 0,
  random_get: (place, length) => (randomBytes(bytes(place, length)), 0),
  fd_close: () => NOT_SUPPORTED,
  fd_seek: () => NOT_SUPPORTED,
  fd_write: () => NOT_SUPPORTED,
  proc_exit(code) {
    throw new Error(`the core ended with code ${code}`);
  },
};

function fail(wrongValue, text) { // cpp/src/os/wasm_exceptions.cpp
  throw new (wrongValue ? RangeError : Error)(textAt(text));
}

function exports() {
  if (instance === undefined) {
    instance = new WebAssembly.Instance(compiled, { wasi_snapshot_preview1: system, hushvec: { throw: fail } });
    instance.exports._initialize();
  }
  return instance.exports;
}

function drop() {
  bytes(0).fill(0);
  instance = undefined;
}

/** Call `work` with the functions of the core; whatever it throws ends this instance. */
export function withCore(work) {
  const core = exports();
  let ended = false;
  try {
    const result = work(core);
    ended = core.memory.buffer.byteLength <= LARGEST_KEPT;
    return result;
  } finally {
    if (!ended) drop();
  }
}

/** Copies of typed arrays after `work` was done on them in the core's memory, where they are wiped. */
export function onCopies(arrays, work) {
  return withCore((core) => {
    const places = arrays.map(({ byteLength }) => core.allocate(Math.max(1, byteLength)));
    if (places.includes(0)) throw new RangeError('arrays must fit into the 4 GiB of WebAssembly');
    const inside = () => arrays.map((array, i) => new array.constructor(core.memory.buffer, places[i], array.length));
    inside().forEach((view, i) => view.set(arrays[i]));
    work(core, ...places);
    return inside().map((view, i) => {
      const copy = view.slice();
      bytes(places[i], view.byteLength).fill(0);
      core.release(places[i]);
      return copy;
    });
  });
}

export const version = withCore((core) => textAt(core.version()));
