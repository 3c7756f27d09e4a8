// The browser's side: notes and clean vectors stay here; noisy rows, each with its receipt, go to the server.
import { PublicCodebook, createPrivacyBudget, privatize, receiptToJson } from 'hushvec';

const DIMENSION = 384;
const NOTES = 80;
const EPSILON = 8; // of a stored note, and of a question
const CANDIDATES = 20; // come back for each question, to be ranked here

const byId = (id) => document.getElementById(id);
const textsOf = async (name) => (await (await fetch(`data/${name}`)).text()).trim().split('\n');
const rowOf = (rows, i) => rows.subarray(i * DIMENSION, (i + 1) * DIMENSION);
const product = (a, b) => a.reduce((sum, value, i) => sum + value * b[i], 0);

/** The vectors of notes and questions. An application embeds its texts here, with a model that runs in the browser. */
async function vectors() {
  const bytes = await (await fetch('data/minilm.npy')).arrayBuffer();
  const rows = Float32Array.from(new Int8Array(bytes, 10 + new DataView(bytes).getUint16(8, true)));
  for (let i = 0; i < rows.length / DIMENSION; i += 1) {
    const row = rowOf(rows, i);
    const length = Math.sqrt(product(row, row));
    row.forEach((value, j) => { row[j] = value / length; });
  }
  return rows;
}

async function post(path, body) {
  const response = await fetch(path, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) });
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.error.message);
  return answer;
}

const [notes, questions, rows] = await Promise.all([textsOf('private_notes.txt'), textsOf('public_sentences.txt'), vectors()]);
const codebook = await PublicCodebook.load(await (await fetch('codebook/codebook.npz')).arrayBuffer());
const clean = rows.subarray(0, NOTES * DIMENSION);
// Of a single person, so that releases add up; they are kept in IndexedDB.
const budget = await createPrivacyBudget({ maxEpsilon: 80, persistKey: 'browser-notes' });
byId('question').append(...questions.map((text, i) => new Option(text, i)).filter((_, i) => i % 4 === 3)); // the others are codes

const showSpent = () => { byId('spent').textContent = `Spent: epsilon ${budget.consumed()}; left: ${budget.remaining()}.`; };

async function store() {
  const { values, receipt } = await privatize(clean, { mechanism: codebook.mechanism(EPSILON), dimension: DIMENSION, budget });
  const released = [...Array(NOTES).keys()].map((i) => [...rowOf(values, i)]);
  const { rows: kept } = await post('/v1/released', { ids: [...Array(NOTES).keys()].map(String), vectors: released, receipt: JSON.parse(receiptToJson(receipt)) });
  byId('stored').textContent = `The server checked the receipt and has ${kept} noisy rows.`;
}

async function search() {
  const question = rowOf(rows, NOTES + Number(byId('question').value));
  const { values, receipt } = await privatize(question, { mechanism: codebook.mechanism(EPSILON), budget });
  const { ids } = await post('/v1/released/search', { vector: [...values], receipt: JSON.parse(receiptToJson(receipt)), k: CANDIDATES });
  const ranked = ids.map(Number).sort((a, b) => product(rowOf(clean, b), question) - product(rowOf(clean, a), question));
  byId('found').replaceChildren(...ranked.slice(0, 5).map((i) => Object.assign(document.createElement('li'), { textContent: notes[i] })));
}

const trying = (work) => async (event) => {
  event.preventDefault();
  byId('problem').textContent = '';
  try {
    await work();
  } catch (error) {
    byId('problem').textContent = error.message;
  }
  showSpent();
};
byId('store').addEventListener('click', trying(store));
byId('search').addEventListener('submit', trying(search));
showSpent();
