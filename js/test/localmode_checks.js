// What LocalMode's models do with the middleware, in Node and in a page: an error where they do something else.
const equal = (found, expected) => {
  if (JSON.stringify(found) !== JSON.stringify(expected)) throw new Error(`${JSON.stringify(found)} is not ${JSON.stringify(expected)}`);
};

export async function checkLocalMode(hv, { embed, embedMany, wrapEmbeddingModel, composeEmbeddingMiddleware }) {
  const doEmbed = async ({ values }) => ({ embeddings: values.map(() => new Float32Array(384).fill(384 ** -0.5)), usage: { tokens: 1 }, response: { modelId: 'a', timestamp: new Date() } });
  const model = { modelId: 'Xenova/all-MiniLM-L6-v2', provider: 'test', dimensions: 384, maxEmbeddingsPerCall: 100, supportsParallelCalls: true, doEmbed };
  const budget = await hv.createPrivacyBudget({ maxEpsilon: 10 });
  const receipts = [];
  const middleware = hv.dpEmbeddingMiddleware({ epsilon: 4, onReceipt: (receipt) => receipts.push(receipt) }, budget);
  const wrapped = wrapEmbeddingModel({ model, middleware: composeEmbeddingMiddleware([middleware]) });
  const { embedding } = await embed({ model: wrapped, value: 'a text' });
  equal([embedding.length, hv.verifyReceipt(receipts[0]).status, budget.remaining()], [384, 'holds', 6]);
  equal((await embedMany({ model: wrapped, values: ['a', 'b'] })).embeddings.length, 2);
  const refused = await embed({ model: wrapped, value: 'a', maxRetries: 0 }).then(() => undefined, ({ cause }) => cause);
  equal(refused instanceof hv.PrivacyBudgetExhaustedError, true);
}
