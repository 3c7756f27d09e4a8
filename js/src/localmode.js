// The names and option shapes of @localmode/core, by which an application changes one import. Where its behavior is not private the safe rule
// holds instead: docs/web.md has the table.
import { privatizeLabels } from './labels.js';
import { gaussianSigma, laplaceScale, privatize } from './release.js';
import { choice, delta as checkedDelta, positive } from './numbers.js';

const UNIT_SENSITIVITY = 2; // of unit vectors, the farthest that two can lie apart
const NEAR_ONE = 0.008; // by which rounding in 16 bits moves a norm
const MARGIN = 1.1; // above the largest distance that was seen
const SAMPLES = ['The capital of France is Paris.', 'Water boils at 100 degrees Celsius.', 'She was prescribed insulin in March.', 'Invoice 4711 is overdue.', 'ok'];

/** The L2 sensitivity of a model of unit vectors, which the middleware enforces by clipping whatever the model does. */
export const getSensitivity = (_modelId) => UNIT_SENSITIVITY;

export const computeGaussianSigma = (sensitivity, epsilon, delta) => gaussianSigma(epsilon, delta, sensitivity);

/** The scale for rows of `dimensions` elements that move by at most `sensitivity` in L2, hence by sqrt(dimensions) times that in L1. */
export function computeLaplacianScale(sensitivity, epsilon, dimensions) {
  if (dimensions === undefined) throw new TypeError('dimensions must be given: an L2 sensitivity bounds what one element sees, not the L1 distance that Laplace noise needs');
  return laplaceScale(epsilon, sensitivity * Math.sqrt(dimensions));
}

export function addNoise(embedding, noise) {
  if (embedding.length !== noise.length) throw new RangeError(`noise must have ${embedding.length} elements, got ${noise.length}`);
  return Float32Array.from(embedding, (value, i) => value + noise[i]);
}

/** 2 for a model of unit vectors, else the largest distance of samples and a tenth: an estimate, of which nothing follows for other texts. */
export async function calibrateSensitivity(model, samples = SAMPLES) {
  const { embeddings } = await model.doEmbed({ values: samples });
  if (embeddings.every((row) => Math.abs(Math.hypot(...row) - 1) < NEAR_ONE)) return UNIT_SENSITIVITY;
  const distances = embeddings.flatMap((one, i) => embeddings.slice(i + 1).map((other) => Math.hypot(...one.map((value, j) => value - other[j]))));
  return Math.max(...distances) * MARGIN;
}

/** Embeddings through `privatize`, each text another person's. `onReceipt` gets the receipt of each batch, which the result has as well. */
export function dpEmbeddingMiddleware({ epsilon, delta = 1e-5, sensitivity = 'auto', modelId, mechanism = 'gaussian', onReceipt }, budget) {
  positive('epsilon', epsilon);
  choice('mechanism', mechanism, ['gaussian', 'laplacian', 'privunit']);
  checkedDelta(delta, mechanism !== 'gaussian');
  if (sensitivity !== 'auto') positive('sensitivity', sensitivity);
  return {
    wrapEmbed: async ({ doEmbed, model }) => {
      const result = await doEmbed();
      const clipNorm = (sensitivity === 'auto' ? getSensitivity(modelId ?? model?.modelId) : sensitivity) / 2;
      const { values, receipt } = await privatize(result.embeddings, { epsilon, delta, mechanism, clipNorm, budget });
      onReceipt?.(receipt);
      return { ...result, embeddings: values, receipt };
    },
  };
}

/** Labels by randomized response. All scores become 1 / k: one that was kept would tell which answers are true. */
export function dpClassificationMiddleware({ epsilon, labels, onReceipt }, budget) {
  positive('epsilon', epsilon);
  return {
    wrapClassify: async ({ doClassify }) => {
      const result = await doClassify();
      const { values, receipt } = await privatizeLabels(result.results.map(({ label }) => label), labels, { epsilon, budget, scores: 'uniform' });
      onReceipt?.(receipt);
      return { ...result, results: values.map((label) => ({ label, score: 1 / labels.length })), receipt };
    },
  };
}
