// The package by itself: budgets, LocalMode's names, secrets in memory, forms of rows.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { appendFile, mkdtemp, readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test from 'node:test';
import * as hv from 'hushvec';
import { randomBytes, withCore } from '../src/core.js';

const ROW = Array.from({ length: 8 }, (_, i) => (i - 3.5) / 8);
const inFolder = async (name) => join(await mkdtemp(join(tmpdir(), 'hushvec-')), name);
const model = {
  modelId: 'a model',
  doEmbed: async ({ values }) => ({ embeddings: values.map((text) => new Float32Array(64).fill(text.length)), usage: { tokens: 1 } }),
};

test('values come back in the form of the rows', async () => {
  const [one, flat, many] = await Promise.all([
    hv.privatize(ROW, { epsilon: 8 }),
    hv.privatize(new Float32Array(24), { epsilon: 8, dimension: 8 }),
    hv.privatize([ROW, Float32Array.from(ROW)], { epsilon: 8 }),
  ]);
  assert.deepEqual([one.values.length, one.receipt.rows], [8, 1]);
  assert.deepEqual([flat.values.length, flat.receipt.rows], [24, 3]);
  assert.deepEqual([many.values.map((row) => row.constructor.name), many.receipt.rows], [['Float32Array', 'Float32Array'], 2]);
});

test('rows are not written to', async () => {
  const x = Float32Array.from(ROW);
  await hv.privatize(x, { epsilon: 8, normalize: true, renormalize: true });
  assert.deepEqual([...x], [...Float32Array.from(ROW)]);
});

test('rows may change once the call has begun', async () => {
  const budget = await hv.createPrivacyBudget({ maxEpsilon: 2e4 });
  for (const more of [{}, { budget }]) {
    const x = Float32Array.from(ROW);
    const release = hv.privatize(x, { epsilon: 1e4, delta: 0.1, clipNorm: 10, ...more });
    x.fill(9);
    (await release).values.forEach((value, i) => assert.ok(Math.abs(value - ROW[i]) < 2, `${value}`));
  }
});

test('an option that nothing reads is refused', async () => {
  await assert.rejects(hv.privatize(ROW, { epsilon: 8, clip_norm: 2 }), { name: 'TypeError', message: /^options must be of epsilon, .*, got 'clip_norm'$/ });
});

test('two releases without a seed differ, and their receipts hold', async () => {
  const [first, second] = [await hv.privatize(ROW, { epsilon: 8 }), await hv.privatize(ROW, { epsilon: 8 })];
  assert.notDeepEqual(first.values, second.values);
  assert.equal(hv.verifyReceipt(first.receipt).status, 'holds');
});

// n = 200,000, alpha 1e-6: the sample variance of a normal law has the standard deviation sqrt(2 / n) of it, the mean sigma / sqrt(n).
test('noise without a seed has its mean and its variance', () => {
  const n = 200000;
  for (const [draw, variance, kurtosis] of [[hv.gaussianNoise, 4, 3], [hv.laplacianNoise, 8, 6]]) {
    const noise = draw(n, 2);
    const mean = noise.reduce((sum, z) => sum + z, 0) / n;
    const square = noise.reduce((sum, z) => sum + z * z, 0) / n;
    assert.ok(Math.abs(mean) < 4.9 * Math.sqrt(variance / n), `mean ${mean}`);
    assert.ok(Math.abs(square / variance - 1) < 4.9 * Math.sqrt((kurtosis - 1) / n), `variance ${square}`);
  }
});

test('random bytes are asked for in pieces that crypto.getRandomValues gives', () => {
  const bytes = new Uint8Array(200000);
  randomBytes(bytes);
  assert.ok(new Set(bytes.subarray(131072)).size === 256);
});

test('nothing of rows or key is left in the memory of the core', async () => {
  const secret = Float32Array.from({ length: 384 }, (_, i) => Math.fround(0.123 + i));
  await hv.privatize(secret, { epsilon: 8 });
  const seed = BigInt('0x0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f20');
  await hv.privatize(secret, { epsilon: 8, generator: hv.Generator.unsafeSeeded(seed) });
  const key = Uint8Array.from({ length: 32 }, (_, i) => 32 - i);
  withCore((core) => {
    const memory = Buffer.from(core.memory.buffer);
    for (const part of [Buffer.from(secret.buffer, 16, 16), Buffer.from(secret.buffer, 800, 16), key.subarray(0, 16), key.subarray(16)]) {
      assert.equal(memory.indexOf(part), -1);
    }
  });
});

test('an error ends the instance, whose memory is overwritten, and the next call works', async () => {
  let memory;
  withCore((core) => ({ memory } = core));
  await assert.rejects(hv.privatize([[1, 2, NaN, 7.25]], { epsilon: 8 }), RangeError);
  assert.ok(Buffer.from(memory.buffer).every((byte) => byte === 0));
  assert.equal((await hv.privatize(ROW, { epsilon: 8 })).values.length, 8);
});

test('a large instance is dropped after its call', async () => {
  await hv.privatize(new Float32Array(20 << 20), { epsilon: 8, dimension: 1024 });
  withCore((core) => assert.ok(core.memory.buffer.byteLength < 64 << 20));
});

test('a receipt may not have a field twice', async () => {
  const json = hv.receiptToJson((await hv.privatize(ROW, { epsilon: 8, notes: ['"epsilon": 1'] })).receipt);
  assert.equal(hv.verifyReceipt(json).status, 'holds');
  assert.throws(() => hv.verifyReceipt(json.replace('{', '{"epsilon": 9.0,')), { name: 'ReceiptError', message: 'receipt must not have a field twice' });
  assert.throws(() => hv.verifyReceipt(json.replace('"rows"', '"lines"')), { message: "receipt must not have the field 'lines': it is unknown" });
  const fields = JSON.parse(json);
  assert.throws(() => hv.verifyReceipt({ ...fields, toString: 1 }), { message: "receipt must not have the field 'toString': it is unknown" });
  assert.equal(hv.verifyReceipt({ ...fields, rows: Number.MAX_SAFE_INTEGER, dimension: Number.MAX_SAFE_INTEGER, per: 'release', sigma: 1e-300, epsilon: 1e-300 }).status, 'does not hold');
  assert.throws(() => hv.verifyReceipt('[]'), { message: 'receipt must be an object with fields' });
});

// ---- budgets

test('ten charges of 0.1 are exactly 1', async () => {
  const budget = await hv.createPrivacyBudget({ maxEpsilon: 1 });
  for (let i = 0; i < 10; i += 1) await budget.consume(0.1);
  assert.deepEqual([budget.consumed(), budget.remaining(), budget.isExhausted()], [1, 0, true]);
  assert.throws(() => budget.consume(5e-324), {
    name: 'PrivacyBudgetExhaustedError', code: 'PRIVACY_BUDGET_EXHAUSTED', maxEpsilon: 1, consumedEpsilon: 1, message: 'the budget must have epsilon 5e-324 left, got 1 of 1 consumed',
  });
  await budget.reset();
  assert.equal(budget.remaining(), 1);
});

test('a receipt of labels with an epsilon that no law has does not hold', async () => {
  const { receipt } = await hv.privatizeLabels(['a'], ['a', 'b'], { epsilon: 1 });
  for (const epsilon of [1e-30, 5e-324]) assert.equal(hv.verifyReceipt({ ...receipt, epsilon }).status, 'does not hold');
  assert.equal(hv.verifyReceipt({ ...receipt, epsilon: 5e-324, answers: 3, per: 'release' }).status, 'does not hold');
});

test('delta is counted, and limited where it is asked for', async () => {
  const budget = await hv.createPrivacyBudget({ maxEpsilon: 100, maxDelta: 2e-5 });
  for (let i = 0; i < 2; i += 1) await hv.privatize(ROW, { epsilon: 8, budget });
  assert.deepEqual([budget.consumed(), budget.consumedDelta()], [16, 2e-5]);
  await assert.rejects(hv.privatize(ROW, { epsilon: 8, budget }), { maxDelta: 2e-5 });
  await hv.privatize(ROW, { epsilon: 8, mechanism: 'privunit', budget });
});

test('what is refused is not charged, and what is not charged is not drawn', async () => {
  const budget = await hv.createPrivacyBudget({ maxEpsilon: 1 });
  for (const wrong of [{ epsilon: 1, delta: 2 }, { epsilon: 1, clipNorm: 0 }, { epsilon: 1, notes: 'a' }]) await assert.rejects(hv.privatize(ROW, { ...wrong, budget }));
  await assert.rejects(hv.privatize([...ROW, NaN], { epsilon: 1, budget }), { message: 'x must be finite, got nan in row 0' });
  const generator = hv.Generator.unsafeSeeded(1);
  await assert.rejects(hv.privatize(ROW, { epsilon: 1, budget, generator }), /budget must be None with a seeded generator/);
  assert.equal(budget.consumed(), 0);
  const refusing = { consume: async () => { throw new Error('no'); } };
  await assert.rejects(hv.privatize(ROW, { epsilon: 1, budget: refusing }), { message: 'no' });
});

test('a budget that warns goes on', async (t) => {
  const warn = t.mock.method(console, 'warn', () => {});
  const budget = await hv.createPrivacyBudget({ maxEpsilon: 1, onExhausted: 'warn' });
  await budget.consume(1);
  await budget.consume(1);
  assert.deepEqual([budget.consumed(), budget.remaining(), warn.mock.callCount()], [2, -1, 1]);
});

test('a file keeps what was spent, whatever a crash cut off', async () => {
  const persistKey = await inFolder('budget');
  const budget = await hv.createPrivacyBudget({ maxEpsilon: 10, persistKey });
  await budget.consume(3);
  await budget.destroy();
  await appendFile(persistKey, '\n{"id":"x","epsilon":5,"del');
  const again = await hv.createPrivacyBudget({ maxEpsilon: 10, persistKey });
  assert.equal(again.consumed(), 3);
  await again.consume(7);
  assert.throws(() => again.consume(1), hv.PrivacyBudgetExhaustedError);
  await again.destroy();
});

test('two budgets of one file see each other, and refused charges count for nothing', async () => {
  const persistKey = await inFolder('budget');
  const [a, b] = [await hv.createPrivacyBudget({ maxEpsilon: 10, persistKey }), await hv.createPrivacyBudget({ maxEpsilon: 10, persistKey })];
  await a.consume(8);
  await assert.rejects(b.consume(3), hv.PrivacyBudgetExhaustedError); // it had seen nothing of this
  assert.equal(b.consumed(), 8);
  await b.consume(2);
  assert.throws(() => b.consume(1), hv.PrivacyBudgetExhaustedError);
  await Promise.all([a.destroy(), b.destroy()]);
});

test('programs that race for a file never overspend, and those that are killed lose no charge', async () => {
  const persistKey = await inFolder('budget');
  const racer = `
    const hv = await import(${JSON.stringify(new URL('../src/index.js', import.meta.url).href)});
    const budget = await hv.createPrivacyBudget({ maxEpsilon: 200, persistKey: ${JSON.stringify(persistKey)} });
    for (;;) {
      await budget.consume(1);
      process.stdout.write('1');
    }`;
  const run = (kill) => new Promise((resolve) => {
    let won = 0;
    const program = spawn(process.execPath, ['--input-type=module', '-e', racer], { stdio: ['ignore', 'pipe', 'ignore'] });
    program.stdout.on('data', (text) => {
      won += text.length;
      if (won >= kill) program.kill('SIGKILL');
    });
    program.on('close', () => resolve(won));
  });
  const won = await Promise.all([run(20), run(Infinity), run(Infinity), run(Infinity)]);
  const spent = (await readFile(persistKey, 'utf8')).split('\n').filter(Boolean).length;
  assert.ok(spent > 200, `${spent} tries`);
  const told = won.reduce((sum, one) => sum + one, 0);
  assert.ok(told <= 200 && told >= 198, `${told} releases`); // the one that was killed may have charged and not told
  const after = await hv.createPrivacyBudget({ maxEpsilon: 200, persistKey });
  assert.equal(after.consumed(), 200);
  await after.destroy();
});

test('a budget that cannot be kept releases nothing', async () => {
  const budget = await hv.createPrivacyBudget({ maxEpsilon: 10, persistKey: await inFolder('budget') });
  await budget.destroy();
  await assert.rejects(hv.privatize(ROW, { epsilon: 1, budget }), { name: 'BudgetError' });
});

// ---- LocalMode's names

test('the embedding middleware charges after the model has answered, clips and hands over a receipt', async () => {
  const budget = await hv.createPrivacyBudget({ maxEpsilon: 2 });
  const receipts = [];
  const { wrapEmbed } = hv.dpEmbeddingMiddleware({ epsilon: 1, sensitivity: 4, onReceipt: (receipt) => receipts.push(receipt) }, budget);
  const embed = (values) => wrapEmbed({ doEmbed: () => model.doEmbed({ values }), values, model });
  const result = await embed(['a', 'bb']);
  assert.deepEqual([result.usage, result.embeddings.length, result.receipt.rows, budget.remaining()], [{ tokens: 1 }, 2, 2, 1]);
  assert.deepEqual([receipts[0].clip_norm, receipts[0].sensitivity, hv.verifyReceipt(receipts[0]).status], [2, 4, 'holds']);
  await assert.rejects(wrapEmbed({ doEmbed: async () => { throw new Error('model'); }, model }), { message: 'model' });
  assert.equal(budget.remaining(), 1);
  await embed(['a']);
  await assert.rejects(embed(['a']), hv.PrivacyBudgetExhaustedError);
});

test('the classification middleware keeps no score', async () => {
  const { wrapClassify } = hv.dpClassificationMiddleware({ epsilon: 50, labels: ['no', 'yes'] });
  const doClassify = async () => ({ results: [{ label: 'yes', score: 0.9, allScores: { yes: 0.9 } }], usage: {} });
  const { results, receipt } = await wrapClassify({ doClassify });
  assert.deepEqual(results, [{ label: 'yes', score: 0.5 }]);
  assert.equal(hv.verifyReceipt(receipt).status, 'holds');
});

test('randomized answers keep the truth as often as their law says', () => {
  const n = 20000; // alpha 1e-6, n answers at p = e / (e + 2)
  const p = Math.E / (Math.E + 2);
  let kept = 0;
  for (let i = 0; i < n; i += 1) kept += Number(hv.randomizedResponse('b', ['a', 'b', 'c'], 1) === 'b');
  assert.ok(Math.abs(kept / n - p) < 4.9 * Math.sqrt((p * (1 - p)) / n), `${kept}`);
});

test('calibration by the names of LocalMode is on the safe side', async () => {
  assert.equal(hv.getSensitivity('Xenova/bge-small-en-v1.5'), 2);
  assert.ok(hv.gaussianDelta(8, hv.computeGaussianSigma(2, 8, 1e-5), 2) <= 1e-5);
  assert.equal(hv.computeLaplacianScale(2, 8, 256), 4);
  assert.throws(() => hv.computeLaplacianScale(2, 8), /^TypeError: dimensions must be given/);
  assert.deepEqual([...hv.addNoise(Float32Array.of(1, 2), Float32Array.of(0.5, 1))], [1.5, 3]);
  assert.equal(await hv.calibrateSensitivity({ doEmbed: async ({ values }) => ({ embeddings: values.map(() => Float32Array.of(0.6, 0.8)) }) }), 2);
  assert.ok(Math.abs((await hv.calibrateSensitivity(model, ['a', 'abcd'])) - 3 * 8 * 1.1) < 1e-9);
});

test('the version is that of the Python package', async () => {
  const python = /^version = "([^"]+)"/m.exec(await readFile(new URL('../../pyproject.toml', import.meta.url), 'utf8'))[1];
  const { version } = JSON.parse(await readFile(new URL('../package.json', import.meta.url), 'utf8'));
  assert.deepEqual([hv.version, version], [python, python]);
});
