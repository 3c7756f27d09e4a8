// Randomized answers: labels, and rows as codes of a public codebook.
import { onCopies, version } from './core.js';
import { generatorOf } from './generator.js';
import { responseLaw } from './mechanisms.js';
import { choice, positive, quotientDown, repr } from './numbers.js';
import { NOTE_SEED, NOTE_SOURCE, receiptOf } from './receipts.js';
import { charge, rowsPerPerson } from './release.js';

const NOTE_ONE_PERSON = 'all answers are about one person; their number is treated as public';

export const sha256 = async (data) => {
  const bytes = new Uint8Array(await crypto.subtle.digest('SHA-256', data));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
};

const labelJson = (label) =>
  (typeof label === 'number' && !Number.isInteger(label) ? repr(label) : JSON.stringify(label).replace(/[\u007f-\uffff]/g, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, '0')}`));

/** SHA-256 of a list of labels as JSON: ASCII, without spaces, in the order given. */
export const labelsDigest = (labels) => sha256(new TextEncoder().encode(`[${Array.from(labels, labelJson).join(',')}]`));

/** The place of each label in the list. */
function codesOf(name, given, labels) {
  if (!Array.isArray(labels)) throw new TypeError('labels must be an array');
  const places = new Map(labels.map((label, code) => [label, code]));
  if (places.size !== labels.length) throw new RangeError('labels must be different from each other');
  return Int32Array.from(given, (label, i) => {
    if (places.has(label)) return places.get(label);
    const shown = labels.slice(0, 10).map((one) => repr(one)).join(', ');
    throw new RangeError(`${name} must be among the ${labels.length} labels [${shown}${labels.length > 10 ? ', ...' : ''}], got ${repr(label)} at position ${i}`);
  });
}

/** Codes in [0, labels), each answered by randomized response. */
export function answered(codes, labels, law, generator) {
  return onCopies([codes], (core, place) => {
    const { rounds, nonce } = generator.next(core);
    core.randomized_response(rounds, nonce, place, codes.length, labels, law.truth, law.other);
  })[0];
}

/** A label, or another one of the list: epsilon-DP for this one answer. */
export function randomizedResponse(trueLabel, allLabels, epsilon, { generator } = {}) {
  const [code] = answered(codesOf('trueLabel', [trueLabel], allLabels), allLabels.length, responseLaw(positive('epsilon', epsilon), allLabels.length), generatorOf(generator));
  return allLabels[code];
}

/** The receipt of answers by a law. */
export const receiptOfAnswers = ({ per, epsilon, labelCount, digest, law, answers, scores, generator, notes, codebook = null }) => receiptOf({
  mechanism: 'randomized_response',
  adjacency: 'replace-one',
  per,
  epsilon,
  delta: 0,
  label_count: labelCount,
  labels_digest: digest,
  truth_values: String(law.truth),
  other_values: String(law.other),
  answers,
  scores,
  grade: 'exact',
  ...generator.fields(false),
  is_dp_claim: !generator.seeded && scores !== 'source',
  library_version: version,
  notes: [...(scores === 'source' ? [NOTE_SOURCE] : []), ...(generator.seeded ? [NOTE_SEED] : []), ...notes],
  charge: null,
  codebook,
  receipt_version: 1,
  receipt_kind: 'labels',
});

/** The law of an epsilon that prefers the truth at all, among `what`. */
export function preferringLaw(epsilon, rows, count, what) {
  const law = responseLaw(quotientDown(positive('epsilon', epsilon), rows), count);
  if (law.truth > law.other) return law;
  throw new RangeError(`epsilon must be large enough to prefer the truth among ${count} ${what}, got ${repr(epsilon)}`);
}

/** Release labels by randomized response, and a receipt that states the guarantee. */
export async function privatizeLabels(trueLabels, labels, { epsilon, budget, per = 'record', generator: given, scores = 'none' } = {}) {
  const generator = generatorOf(given);
  choice('scores', scores, ['none', 'uniform']);
  const codes = codesOf('true_labels', trueLabels, labels);
  const law = preferringLaw(epsilon, rowsPerPerson(per, codes.length), labels.length, 'labels');
  const notes = per === 'release' ? [NOTE_ONE_PERSON] : [];
  const digest = await labelsDigest(labels);
  const receipt = receiptOfAnswers({ per, epsilon, labelCount: labels.length, digest, law, answers: codes.length, scores, generator, notes });
  if (codes.length === 0) return { values: [], receipt };
  if (budget !== undefined) await charge(budget, generator, epsilon, 0);
  return { values: Array.from(answered(codes, labels.length, law, generator), (code) => labels[code]), receipt };
}
