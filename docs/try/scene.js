// What the page measures: invented notes, what a release of their vectors leaves of them for a thief and for a search.
import { privatize, privatizeLabels } from './hushvec/index.js';

export const DIMENSION = 384;
export const NOTES = 80;
const SENTENCES_A_NOTE = 4; // public sentences 4 i to 4 i + 3 treat the subject of note i: three are public text, the last asks
const TOPICS = { health: 16, money: 14, customers: 12, work: 10, law: 10, travel: 6, school: 6, home: 6 }; // notes of each, in their order

export const TOPIC_OF = Object.entries(TOPICS).flatMap(([topic, count]) => Array(count).fill(topic));
export const MECHANISMS = {
  text: { name: 'Public text', does: 'answers with a public sentence about the same thing, or with another one' },
  privunit: { name: 'PrivUnit', does: 'releases a noisy direction' },
  gaussian: { name: 'Gaussian', does: 'adds noise to each of the 384 numbers' },
};

const lines = (text) => text.split('\n').filter((line) => line !== '');

const rowOf = (rows, i) => rows.subarray(i * DIMENSION, (i + 1) * DIMENSION);

/** The rows, brought to length 1. */
function unitRows(rows) {
  const found = Float32Array.from(rows);
  for (let i = 0; i < found.length / DIMENSION; i += 1) {
    const row = rowOf(found, i);
    const length = Math.hypot(...row);
    row.forEach((value, j) => { row[j] = value / length; });
  }
  return found;
}

/** The elements of an int8 file of numpy's. */
const elementsOf = (bytes) => new Int8Array(bytes, 10 + new DataView(bytes).getUint16(8, true));
const joined = (rows) => {
  const all = new Float32Array(rows.length * DIMENSION);
  rows.forEach((row, i) => all.set(row, i * DIMENSION));
  return all;
};

/** The inner product of a row with each of `rows`. */
function products(row, rows) {
  const found = new Float64Array(rows.length / DIMENSION);
  for (let i = 0, at = 0; i < found.length; i += 1) {
    let sum = 0;
    for (let j = 0; j < DIMENSION; j += 1, at += 1) sum += row[j] * rows[at];
    found[i] = sum;
  }
  return found;
}

const largest = (values) => values.reduce((best, value, i) => (value > values[best] ? i : best), 0);
const ranked = (values, count) => [...values.keys()].sort((a, b) => values[b] - values[a] || a - b).slice(0, count);
const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;

/** `read(name)` gives the bytes of a file of python/hushvec/data. */
export class Scene {
  static async load(read) {
    const [notes, sentences, vectors] = await Promise.all(['private_notes.txt', 'public_sentences.txt', 'minilm.npy'].map(read));
    const text = (bytes) => lines(new TextDecoder().decode(bytes));
    return new Scene(text(notes), text(sentences), unitRows(elementsOf(vectors)));
  }

  constructor(notes, sentences, vectors) {
    const numbers = [...sentences.keys()];
    const asks = (i) => i % SENTENCES_A_NOTE === SENTENCES_A_NOTE - 1;
    const sentenceRow = (i) => rowOf(vectors, NOTES + i);
    this.notes = notes;
    this.clean = vectors.slice(0, NOTES * DIMENSION);
    this.questions = sentences.filter((_, i) => asks(i));
    this.questionRows = joined(numbers.filter(asks).map(sentenceRow));
    this.publicTexts = sentences.filter((_, i) => !asks(i));
    this.publicRows = joined(numbers.filter((i) => !asks(i)).map(sentenceRow));
    /** The thief's list: the notes among the public sentences. */
    this.candidates = [...notes, ...this.publicTexts];
    this.candidateRows = joined([...notes.keys()].map((i) => rowOf(this.clean, i)).concat(numbers.filter((i) => !asks(i)).map(sentenceRow)));
    this.nearestText = this.candidates.map((_, i) => largest(products(rowOf(this.candidateRows, i), this.publicRows)));
  }

  /** The notes as they are. */
  unprotected() {
    return { values: this.clean, unit: this.clean, texts: null, receipt: null };
  }

  /** One release of all notes, each of them another person's. */
  async release(mechanism, epsilon) {
    if (mechanism !== 'text') {
      const { values, receipt } = await privatize(this.clean, { mechanism, epsilon, dimension: DIMENSION });
      return { texts: null, values, unit: unitRows(values), receipt };
    }
    const nearest = this.notes.map((_, i) => this.publicTexts[this.nearestText[i]]);
    const { values: texts, receipt } = await privatizeLabels(nearest, this.publicTexts, { epsilon });
    const number = new Map(this.publicTexts.map((text, i) => [text, i]));
    const chosen = texts.map((text) => number.get(text));
    const values = joined(chosen.map((i) => rowOf(this.publicRows, i)));
    return { texts, chosen, values, unit: values, receipt };
  }

  /** The likeliest candidates for a released note: the thief takes any of them. */
  likeliest(release, note) {
    if (release.texts !== null) {
      const found = [...this.candidates.keys()].filter((i) => this.nearestText[i] === release.chosen[note]);
      return found.length > 0 ? found : [...this.candidates.keys()];
    }
    return [largest(products(rowOf(release.values, note), this.candidateRows))];
  }

  /** The share of the notes that the thief names, on average over ties. */
  named(release) {
    return mean(this.notes.map((_, note) => {
      const found = this.likeliest(release, note);
      return found.includes(note) ? 1 / found.length : 0;
    }));
  }

  /** The notes that a search of the released rows finds, best first; rows of equal cosine in the order of the notes. */
  answers(release, question, count = 3) {
    return ranked(products(rowOf(this.questionRows, question), release.unit), count);
  }

  /** The share of the questions whose first answer is about their topic. */
  onTopic(release) {
    return mean(this.questions.map((_, i) => Number(TOPIC_OF[this.answers(release, i, 1)[0]] === TOPIC_OF[i])));
  }
}

/** The largest share that any attack names of `count` equally likely candidates, by (epsilon, delta) alone. */
export function mostNamed(epsilon, delta, count) {
  const others = (count - 1) * Math.exp(-epsilon);
  return Math.min(1, (1 + delta * others) / (1 + others));
}
