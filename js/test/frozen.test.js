// The frozen digests, by the C++ test compiled for WebAssembly with every operation of the core.
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import test from 'node:test';
import { fileURLToPath } from 'node:url';
import { WASI } from 'node:wasi';

const program = new URL('../../build/web/tests/native/cpp/test_frozen.wasm', import.meta.url);
const vectors = new URL('../../tests/evidence/vectors/', import.meta.url);

test('every frozen release has its digest', async () => {
  const lines = (await readFile(new URL('frozen_releases.csv', vectors), 'utf8')).trim().split('\n');
  const wasi = new WASI({ version: 'preview1', args: ['test_frozen', '/frozen_releases.csv'], preopens: { '/': fileURLToPath(vectors) }, returnOnExit: true });
  let instance;
  const fail = (_kind, text) => {
    const bytes = new Uint8Array(instance.exports.memory.buffer, text);
    throw new Error(new TextDecoder().decode(bytes.slice(0, bytes.indexOf(0))));
  };
  const compiled = await WebAssembly.compile(await readFile(program));
  instance = await WebAssembly.instantiate(compiled, { ...wasi.getImportObject(), hushvec: { throw: fail } });
  assert.equal(wasi.start(instance), 0);
  assert.equal(lines.length - 1, 70);
});
