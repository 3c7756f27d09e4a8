/** Rows: a Float32Array of one row or, with `dimension`, of several; an array of numbers, which is one row; an array of rows. */
export type Rows = Float32Array | Float64Array | number[] | (Float32Array | Float64Array | number[])[];
/** In the form of the rows: one Float32Array, or one for each row of an array of rows. */
export type Values<X> = X extends (infer Row)[] ? (Row extends number ? Float32Array : Float32Array[]) : Float32Array;
export type Per = 'record' | 'release';

/** Anything that can be charged. What it throws passes through, and nothing is released. */
export interface Charged {
  consume(epsilon: number, delta?: number): unknown;
}

export interface PrivatizeOptions {
  /** > 0; not with a mechanism of a codebook, which has its own. */
  epsilon?: number;
  /** In (0, 1), for "gaussian" alone; 1e-5 by default. */
  delta?: number;
  mechanism?: 'gaussian' | 'laplacian' | 'privunit' | CodebookMechanism;
  /** The L2 norm that rows are clipped to; 1 by default. */
  clipNorm?: number;
  /** Bring rows to unit length before the noise; clipNorm must be 1. */
  normalize?: boolean;
  /** Bring rows to unit length after the noise, which costs nothing. */
  renormalize?: boolean;
  /** Charged after all checks and before anything is drawn. */
  budget?: Charged;
  /** "record": every row is another person. "release": all rows are about one. */
  per?: Per;
  /** Columns of a flat array of several rows. */
  dimension?: number;
  notes?: string[];
  generator?: Generator;
}

export interface LedgerEntry {
  ledger: string;
  sequence: number;
  charge_id: string;
  entry_hash: string;
}

interface SharedFields {
  adjacency: 'replace-one';
  per: Per;
  epsilon: number;
  delta: number;
  key_source: 'os' | 'seed';
  cipher: string;
  rounds: number;
  format_version: number;
  is_dp_claim: boolean;
  library_version: string;
  notes: readonly string[];
  charge: LedgerEntry | null;
  receipt_version: 1;
}

/** The fields of docs/receipts.md of the Python package. */
export interface VectorReceipt extends SharedFields {
  mechanism: 'gaussian' | 'empirical' | 'laplacian' | 'privunit';
  clip_norm: number;
  sensitivity: number;
  sensitivity_norm: 'l1' | 'l2';
  sigma: number | null;
  scale: number | null;
  cap_probability: number | null;
  threshold: number | null;
  grid: number | null;
  grade: 'exact' | 'float';
  rows: number;
  dimension: number;
  dtype: 'float32' | 'float64' | 'float16' | 'bfloat16';
  normalize: boolean;
  renormalize: boolean;
  nonfinite: 'raise';
  projection: string | null;
}

export interface LabelReceipt extends SharedFields {
  mechanism: 'randomized_response';
  label_count: number;
  labels_digest: string;
  truth_values: string;
  other_values: string;
  answers: number;
  scores: 'none' | 'uniform' | 'source';
  grade: 'exact';
  codebook: string | null;
  receipt_kind: 'labels';
}

export type Receipt = VectorReceipt | LabelReceipt;
export interface Verification {
  status: 'holds' | 'does not hold' | 'not a DP claim';
  reasons: string[];
}

/** Release rows with differential privacy, and a receipt that states the guarantee. The values are those of the ideal mechanism, rounded exactly. */
export function privatize<X extends Rows>(x: X, options: PrivatizeOptions & { mechanism: CodebookMechanism }): Promise<{ values: Values<X>; ids: Int32Array; receipt: LabelReceipt }>;
export function privatize<X extends Rows>(x: X, options: PrivatizeOptions): Promise<{ values: Values<X>; receipt: VectorReceipt }>;
/** Release labels by randomized response. */
export function privatizeLabels<Label extends string | number | boolean>(trueLabels: readonly Label[], labels: readonly Label[],
  options: { epsilon: number; budget?: Charged; per?: Per; generator?: Generator; scores?: 'none' | 'uniform' }): Promise<{ values: Label[]; receipt: LabelReceipt }>;
export function randomizedResponse<Label>(trueLabel: Label, allLabels: readonly Label[], epsilon: number, options?: { generator?: Generator }): Label;
/** Clip every row and add exact noise of a given size: no receipt. */
export function clipAndNoise<X extends Rows>(x: X, options: { clipNorm: number; sigma?: number; scale?: number; dimension?: number; generator?: Generator }): Values<X>;
/** Noise alone: a building block without a claim. Added in floating point it gives no differential privacy in the strict sense. */
export function gaussianNoise(dimensions: number, sigma?: number, options?: { generator?: Generator }): Float32Array;
export function laplacianNoise(dimensions: number, scale?: number, options?: { generator?: Generator }): Float32Array;

/** A key stream: one key for each call, by crypto.getRandomValues. */
export class Generator {
  constructor(options?: { cipher?: 'chacha20' | 'chacha12' | 'chacha8' });
  /** A stream that anyone with the seed can repeat: for tests and studies, never for a release. */
  static unsafeSeeded(seed: number | bigint, options?: { cipher?: 'chacha20' | 'chacha12' | 'chacha8'; formatVersion?: 1 | 3 }): Generator;
  readonly cipher: string;
  readonly formatVersion: number;
  readonly seeded: boolean;
}

export interface CodebookMechanism {
  release(...given: never[]): Promise<unknown>;
}

/** k public unit rows, of which releases are made: a file of Python's `PublicCodebook.save`. */
export class PublicCodebook {
  static load(file: ArrayBuffer | Uint8Array): Promise<PublicCodebook>;
  readonly dimension: number;
  readonly size: number;
  readonly digest: string;
  /** The number of the nearest code of each row: private, not to be released. */
  encode(x: Rows, options?: { dimension?: number }): Int32Array;
  mechanism(epsilon: number): CodebookMechanism;
}

// Calibration, on the safe side of the exact value.
export function gaussianSigma(epsilon: number, delta: number, sensitivity?: number): number;
export function gaussianEpsilon(delta: number, sigma: number, sensitivity?: number): number;
export function gaussianDelta(epsilon: number, sigma: number, sensitivity?: number): number;
export function laplaceScale(epsilon: number, sensitivity: number): number;

/** Whether the guarantee of a receipt follows from its numbers; a JSON text or an object with its fields. */
export function verifyReceipt(receipt: string | object): Verification;
export function receiptFromJson(json: string): Receipt;
export function receiptToJson(receipt: Receipt): string;
export function labelsDigest(labels: Iterable<string | number | boolean>): Promise<string>;

export interface PrivacyBudget extends Charged {
  consume(epsilon: number, delta?: number): Promise<void>;
  consumed(): number;
  consumedDelta(): number;
  remaining(): number;
  isExhausted(): boolean;
  reset(): Promise<void>;
  destroy(): Promise<void>;
}
/** `persistKey`: a key of IndexedDB in a browser, the path of a file in Node. */
export function createPrivacyBudget(config: {
  maxEpsilon: number;
  maxDelta?: number | null;
  persistKey?: string;
  collectionId?: string;
  onExhausted?: 'block' | 'warn';
}): Promise<PrivacyBudget>;

export class ReceiptError extends Error {}
export class BudgetError extends Error {}
export class PrivacyBudgetExhaustedError extends BudgetError {
  readonly code: 'PRIVACY_BUDGET_EXHAUSTED';
  readonly hint: string;
  readonly maxEpsilon?: number;
  readonly consumedEpsilon?: number;
  readonly maxDelta?: number;
  readonly consumedDelta?: number;
}

// The names of @localmode/core.
interface EmbeddingModel {
  readonly modelId?: string;
  doEmbed(options: { values: string[] }): Promise<{ embeddings: Float32Array[] }>;
}
export function dpEmbeddingMiddleware(config: {
  epsilon: number;
  delta?: number;
  /** L2, enforced by clipping rows to half of it; 2 by default. */
  sensitivity?: number | 'auto';
  modelId?: string;
  mechanism?: 'gaussian' | 'laplacian' | 'privunit';
  onReceipt?: (receipt: VectorReceipt) => void;
}, budget?: Charged): { wrapEmbed<T>(options: { doEmbed: () => Promise<T>; values: string[]; model: EmbeddingModel }): Promise<T> };
export function dpClassificationMiddleware(config: { epsilon: number; labels: string[]; onReceipt?: (receipt: LabelReceipt) => void }, budget?: Charged):
  { wrapClassify<T>(options: { doClassify: () => Promise<T> }): Promise<T> };
export function getSensitivity(modelId?: string): number;
export function calibrateSensitivity(model: EmbeddingModel, samples?: string[]): Promise<number>;
export function computeGaussianSigma(sensitivity: number, epsilon: number, delta: number): number;
/** For rows of `dimensions` elements that move by at most `sensitivity` in L2. */
export function computeLaplacianScale(sensitivity: number, epsilon: number, dimensions: number): number;
export function addNoise(embedding: Float32Array, noise: Float32Array): Float32Array;

export const version: string;
