// Sizes and times of the package, as docs/web.md has them: node js/test/measure.js
import { readdir, readFile } from 'node:fs/promises';
import { cpus } from 'node:os';
import { setTimeout } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';

const [ROWS, DIMENSION] = [1000, 384];
const WARM_UP = 1000; // ms, after which V8 gets as long to compile the module a second time, optimized, beside the program
const TRIES = 200;

const begin = performance.now();
const hv = await import('hushvec');
const first = await hv.privatize([[1, 2, 3]], { epsilon: 8 });
const started = performance.now() - begin;

/** The fastest of many calls, in ms: each draws anew. */
async function fastest(call) {
  const end = performance.now() + WARM_UP;
  while (performance.now() < end) await call();
  await setTimeout(WARM_UP);
  let best = Infinity;
  for (let i = 0; i < TRIES; i += 1) {
    const from = performance.now();
    await call();
    best = Math.min(best, performance.now() - from);
  }
  return best;
}

/** LocalMode's published way: a call of the generator for every number, Box-Muller, and a loop that adds. */
function perNumber(row, sigma) {
  const uniform = () => (crypto.getRandomValues(new Uint32Array(1))[0] + 1) / 4294967297;
  return row.map((value) => value + sigma * Math.sqrt(-2 * Math.log(uniform())) * Math.cos(2 * Math.PI * uniform()));
}

const x = new Float32Array(ROWS * DIMENSION).map(() => Math.random() - 0.5);
const row = x.slice(0, DIMENSION);
const folder = new URL('../src/', import.meta.url);
const sources = (await readdir(folder)).filter((name) => name.endsWith('.js')).map((name) => readFile(new URL(name, folder)));
const wasm = await readFile(new URL('../src/hushvec.wasm', import.meta.url));
const kilobytes = (data) => Number((gzipSync(data, { level: 9 }).length / 1000).toFixed(1));
const times = {};
for (const mechanism of ['gaussian', 'laplacian', 'privunit']) {
  const ms = await fastest(() => hv.privatize(x, { epsilon: 8, dimension: DIMENSION, mechanism }));
  times[mechanism] = { 'ns an element': Number((ms * 1e6 / x.length).toFixed(2)), 'us a row of 384': Number((ms * 1e3 / ROWS).toFixed(2)) };
}
console.log(JSON.stringify({
  processor: cpus()[0].model,
  node: process.version,
  'gzipped KB': { 'hushvec.wasm': kilobytes(wasm), sources: kilobytes(Buffer.concat(await Promise.all(sources))) },
  'ms from import to the first release': Number(started.toFixed(1)),
  privatize: times,
  'us a call with one row of 384': Number((await fastest(() => hv.privatize(row, { epsilon: 8 })) * 1e3).toFixed(1)),
  'a call of the generator for every number, ns an element': Number((await fastest(() => perNumber(row, first.receipt.sigma)) * 1e6 / DIMENSION).toFixed(0)),
}, null, 1));
