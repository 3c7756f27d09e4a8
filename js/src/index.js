export { createPrivacyBudget } from './budget.js';
export { PublicCodebook } from './codebook.js';
export { version } from './core.js';
export { BudgetError, PrivacyBudgetExhaustedError, ReceiptError } from './errors.js';
export { Generator } from './generator.js';
export { labelsDigest, privatizeLabels, randomizedResponse } from './labels.js';
export {
  addNoise, calibrateSensitivity, computeGaussianSigma, computeLaplacianScale, dpClassificationMiddleware, dpEmbeddingMiddleware, getSensitivity,
} from './localmode.js';
export { receiptFromJson, receiptToJson, verifyReceipt } from './receipts.js';
export {
  clipAndNoise, gaussianDelta, gaussianEpsilon, gaussianNoise, gaussianSigma, laplaceScale, laplacianNoise, privatize,
} from './release.js';
