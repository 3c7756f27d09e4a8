// What the Python package made (make_vectors.py): the same bits, receipts, texts and verdicts here.
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import test from 'node:test';
import * as hv from 'hushvec';

const read = (name) => readFile(new URL(`vectors/${name}`, import.meta.url));
const text = async (name) => (await read(name)).toString();

const digest = async (bytes) => Buffer.from(await crypto.subtle.digest('SHA-256', bytes)).toString('hex').slice(0, 16);

const MASK = (1n << 64n) - 1n;

function* words(seed) {
  let state = BigInt(seed);
  for (;;) {
    state = (state + 0x9e3779b97f4a7c15n) & MASK;
    let z = state;
    z = ((z ^ (z >> 30n)) * 0xbf58476d1ce4e5b9n) & MASK;
    z = ((z ^ (z >> 27n)) * 0x94d049bb133111ebn) & MASK;
    yield z ^ (z >> 31n);
  }
}

function rowsOf(seed, rows, dimension) {
  const next = words(seed);
  return Float32Array.from({ length: rows * dimension }, (_, i) => {
    const top = Number(BigInt.asIntN(32, next.next().value >> 32n));
    return top * 2 ** -31 * (4 / Math.sqrt(dimension)) * ((Math.floor(i / dimension) % 4) / 4);
  });
}

test('1,000 seeded releases have the bits and the receipts of Python', async () => {
  const [header, ...lines] = (await text('releases.csv')).trim().split('\n');
  assert.equal(lines.length, 1000);
  for (const line of lines) {
    const given = Object.fromEntries(line.split(',').map((value, i) => [header.split(',')[i], value]));
    const [seed, rows, dimension] = [given.seed, given.rows, given.dimension].map(Number);
    const generator = hv.Generator.unsafeSeeded(seed, { cipher: given.cipher, formatVersion: Number(given.format_version) });
    const { values, receipt } = await hv.privatize(rowsOf(seed, rows, dimension), {
      mechanism: given.mechanism,
      epsilon: Number(given.epsilon),
      delta: Number(given.delta),
      clipNorm: Number(given.clip_norm),
      normalize: given.normalize === 'true',
      renormalize: given.renormalize === 'true',
      per: given.per,
      dimension,
      generator,
    });
    assert.equal(await digest(values), given.values, line);
    const split = { cap_probability: null, threshold: null };
    assert.equal(await digest(new TextEncoder().encode(hv.receiptToJson({ ...receipt, ...split }))), given.receipt, line);
    assert.ok(Math.abs((receipt.threshold ?? 0) - Number(given.threshold)) <= 1e-13 * Number(given.threshold), line);
    assert.notEqual(hv.verifyReceipt(receipt).status, 'does not hold', line);
  }
});

test('what is refused has the texts of Python', async (t) => {
  const x = Array.from({ length: 3 }, () => [1, 1, 1, 1]);
  const bad = new Float32Array(12).fill(1);
  bad[9] = NaN;
  const cases = JSON.parse(await text('errors.json'));
  assert.ok(cases.length >= 20);
  for (const { javascript, text: expected } of cases) {
    await t.test(javascript, () => assert.rejects(async () => new Function('hv', 'x', 'bad', `return ${javascript}`)(hv, x, bad), { message: expected }));
  }
});

test('receipts of Python are read, written and judged as in Python', async () => {
  const cases = JSON.parse(await text('receipts.json'));
  assert.equal(new Set(cases.map(({ status }) => status)).size, 3);
  for (const { json, status, reasons } of cases) {
    assert.equal(hv.receiptToJson(hv.receiptFromJson(json)), json);
    assert.deepEqual(hv.verifyReceipt(json), { status, reasons }, json);
  }
});

test('a codebook of Python answers with the same codes, rows and receipts', async () => {
  const codebook = await hv.PublicCodebook.load(await read('codebook.npz'));
  const cases = JSON.parse(await text('codebook.json'));
  for (const [seed, { codes, values, receipt }] of cases.entries()) {
    const x = rowsOf(1000 + seed, 7, 12);
    for (let i = 0; i < 12; i += 1) x[i] += 0.5;
    const mechanism = codebook.mechanism(0.5 + seed / 4);
    const release = await hv.privatize(x, { mechanism, dimension: 12, generator: hv.Generator.unsafeSeeded(seed) });
    assert.deepEqual([...codebook.encode(x)], codes);
    assert.equal(hv.receiptToJson(release.receipt), receipt);
    assert.equal(await digest(release.values), values);
  }
});

test('a codebook that was changed is refused', async () => {
  const bytes = new Uint8Array(await read('codebook.npz'));
  const at = Buffer.from(bytes).indexOf('codes.npy') + 200;
  bytes[at] ^= 1;
  await assert.rejects(hv.PublicCodebook.load(bytes), { name: 'RangeError', message: /^the file has digest [0-9a-f]{64}, but says / });
  await assert.rejects(hv.PublicCodebook.load(new Uint8Array(100)), { message: /^the file is not a saved codebook: / });
});
