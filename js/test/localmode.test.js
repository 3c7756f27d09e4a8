// With LocalMode itself, where LOCALMODE is the path of a bundle of @localmode/core.
import assert from 'node:assert/strict';
import test from 'node:test';
import { pathToFileURL } from 'node:url';
import * as hv from 'hushvec';

const path = process.env.LOCALMODE;

test("LocalMode's models take the middleware", { skip: path === undefined && 'LOCALMODE names no bundle of @localmode/core' }, async () => {
  const { embed, embedMany, wrapEmbeddingModel, composeEmbeddingMiddleware } = await import(pathToFileURL(path));
  const doEmbed = async ({ values }) => ({ embeddings: values.map(() => new Float32Array(384).fill(384 ** -0.5)), usage: { tokens: 1 }, response: { modelId: 'a', timestamp: new Date() } });
  const model = { modelId: 'Xenova/all-MiniLM-L6-v2', provider: 'test', dimensions: 384, maxEmbeddingsPerCall: 100, supportsParallelCalls: true, doEmbed };
  const budget = await hv.createPrivacyBudget({ maxEpsilon: 10 });
  const receipts = [];
  const middleware = hv.dpEmbeddingMiddleware({ epsilon: 4, onReceipt: (receipt) => receipts.push(receipt) }, budget);
  const wrapped = wrapEmbeddingModel({ model, middleware: composeEmbeddingMiddleware([middleware]) });
  const { embedding } = await embed({ model: wrapped, value: 'a text' });
  assert.deepEqual([embedding.length, hv.verifyReceipt(receipts[0]).status, budget.remaining()], [384, 'holds', 6]);
  assert.equal((await embedMany({ model: wrapped, values: ['a', 'b'] })).embeddings.length, 2);
  await assert.rejects(embed({ model: wrapped, value: 'a', maxRetries: 0 }), ({ cause }) => cause instanceof hv.PrivacyBudgetExhaustedError);
});
