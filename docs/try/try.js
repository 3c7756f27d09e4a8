// The page: what is chosen on it, and what it shows. Nothing is sent; the module and the notes come from beside this file.
import { receiptToJson, verifyReceipt } from './hushvec/index.js';
import { DIMENSION, MECHANISMS, NOTES, Scene, TOPIC_OF, mostNamed } from './scene.js';
import { drawCurves, drawStrip } from './pictures.js';

const SWEEP = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32];
const SWEEP_RELEASES = 5;
const STEPS_AN_OCTAVE = 8;
const FIRST_EPSILON = 8;
const FORGED_EPSILON = 1;

const byId = (id) => document.getElementById(id);
const percent = (share) => `${(100 * share).toFixed(share > 0 && share < 0.0995 ? 1 : 0)}\u00a0%`;
/** Never rounded down, and below 100 as long as it is. */
const percentUp = (share) => {
  const decimals = [1, 2, 3, 4].find((count) => Math.ceil(share * 100 * 10 ** count) < 100 * 10 ** count);
  return `${decimals === undefined ? 100 : (Math.ceil(share * 100 * 10 ** decimals) / 10 ** decimals).toFixed(decimals)}\u00a0%`;
};
const epsilonAt = (step) => Math.round(10 * 2 ** (step / STEPS_AN_OCTAVE)) / 10;
/** Lets the browser draw and hear, between two pieces of work. */
const breath = () => new Promise((resolve) => { setTimeout(resolve, 0); });

let scene;
let cleanFound; // the share of first answers on topic without noise
let release;
let drawing = 0; // the newest release asked for: older ones are thrown away
const sweeps = {}; // mechanism -> [{ epsilon, named, found }]

const mechanism = () => document.querySelector('[name=mechanism]:checked').value;
const epsilon = () => epsilonAt(Number(byId('epsilon').value));

function element(name, text, className = '') {
  const made = document.createElement(name);
  made.textContent = text;
  made.className = className;
  return made;
}

function fillControls() {
  for (const [value, { name, does }] of Object.entries(MECHANISMS)) {
    const label = element('label', '');
    const input = Object.assign(document.createElement('input'), { type: 'radio', name: 'mechanism', value, checked: value === 'text' });
    const said = element('span', '');
    said.append(element('strong', name), ` ${does}`);
    label.append(input, said);
    byId('mechanisms').append(label);
  }
  byId('epsilon').value = STEPS_AN_OCTAVE * Math.log2(FIRST_EPSILON);
  byId('note').append(...scene.notes.map((text, i) => new Option(text, i)));
  byId('question').append(...scene.questions.map((text, i) => new Option(text, i)));
  cleanFound = scene.onTopic(scene.unprotected());
  byId('found-clean').style.left = `${100 * cleanFound}%`;
  byId('mechanisms').addEventListener('change', releaseAgain);
  byId('epsilon').addEventListener('input', releaseAgain);
  byId('again').addEventListener('click', releaseAgain);
  byId('note').addEventListener('change', showNote);
  byId('question').addEventListener('change', showAnswers);
  byId('receipt').addEventListener('input', showVerdict);
  byId('forge').addEventListener('click', forge);
  byId('restore').addEventListener('click', showReceipt);
}

async function releaseAgain() {
  drawing += 1;
  const asked = drawing;
  const began = performance.now();
  const made = await scene.release(mechanism(), epsilon());
  if (asked !== drawing) return;
  const took = performance.now() - began;
  release = made;
  byId('time').textContent = `${NOTES} notes of ${DIMENSION} numbers took ${took.toFixed(1)} ms on this device.`;
  showEpsilon();
  showShares();
  showNote();
  showAnswers();
  showReceipt();
  await showCurves(asked);
}

function showEpsilon() {
  const said = `${epsilon()}${release.receipt.delta > 0 ? ` and delta ${release.receipt.delta}` : ''}`;
  byId('epsilon-value').textContent = said;
  const two = percentUp(mostNamed(epsilon(), release.receipt.delta, 2));
  byId('epsilon').setAttribute('aria-valuetext', `${said}: one of two notes is named at most ${two} of the time`);
  byId('means').textContent = `Told that a note is one of two, nobody names the right one more often than ${two}; a coin is right 50\u00a0% of the time.`;
}

function showShares() {
  const [named, found] = [scene.named(release), scene.onTopic(release)];
  const bound = mostNamed(epsilon(), release.receipt.delta, scene.candidates.length);
  byId('named').textContent = percent(named);
  byId('named-of').textContent = `of the ${NOTES} notes; 100\u00a0% without noise`;
  byId('named-bar').style.width = `${100 * named}%`;
  byId('named-bound').style.left = `${100 * bound}%`;
  byId('bound').textContent = `The mark is the guarantee: on average no attack names more than ${percentUp(bound)} of a list of ${scene.candidates.length}.`;
  byId('found').textContent = percent(found);
  byId('found-of').textContent = `of the first answers are about the question's topic; ${percent(cleanFound)} without noise`;
  byId('found-bar').style.width = `${100 * found}%`;
}

function showNote() {
  const note = Number(byId('note').value);
  const likeliest = scene.likeliest(release, note);
  const guess = likeliest[drawing % likeliest.length]; // any of them: all are equally likely
  byId('guess').textContent = scene.candidates[guess];
  const among = likeliest.length > 1 ? ` It is one of ${likeliest.length} that are equally likely.` : '';
  byId('guess-verdict').textContent = `${guess === note ? 'Right: the note is named.' : 'Wrong: the note stays hidden.'}${among}`;
  byId('guess-verdict').className = guess === note ? 'bad' : 'good';
  byId('released-text').textContent = release.texts === null ? '' : `Released for the note: “${release.texts[note]}”`;
  const rowOf = (values) => values.subarray(note * DIMENSION, (note + 1) * DIMENSION);
  drawStrip(byId('clean-strip'), rowOf(scene.clean));
  drawStrip(byId('released-strip'), rowOf(release.values));
}

function showAnswers() {
  const question = Number(byId('question').value);
  byId('answers').replaceChildren(...scene.answers(release, question).map((note) => {
    const answer = element('li', scene.notes[note]);
    const right = TOPIC_OF[note] === TOPIC_OF[question];
    answer.append(' ', element('span', right ? 'on topic' : `about ${TOPIC_OF[note]}`, right ? 'tag good' : 'tag'));
    return answer;
  }));
}

function showReceipt() {
  byId('receipt').value = JSON.stringify(JSON.parse(receiptToJson(release.receipt)), null, 2);
  showVerdict();
}

function forge() {
  byId('receipt').value = byId('receipt').value.replace(/"epsilon": [^,]+/, `"epsilon": ${FORGED_EPSILON}`);
  showVerdict();
}

function showVerdict() {
  let found;
  try {
    found = verifyReceipt(byId('receipt').value);
  } catch (error) {
    found = { status: 'not a receipt', reasons: [error.message] };
  }
  const holds = found.status === 'holds';
  byId('verdict').className = `verdict ${holds ? 'good' : 'bad'}`;
  byId('verdict').textContent = `${holds ? 'It holds' : found.status === 'not a receipt' ? 'This is not a receipt' : 'It does not hold'}: ${found.reasons.join('; ')}`;
  byId('restore').hidden = holds;
}

/** Measures the mechanism over epsilon, once, and shows what there is meanwhile. */
async function showCurves(asked) {
  const name = mechanism();
  if (!(name in sweeps)) {
    const points = [];
    for (const at of SWEEP) {
      const point = { epsilon: at, named: 0, found: 0 };
      for (let i = 0; i < SWEEP_RELEASES; i += 1) {
        const made = await scene.release(name, at);
        point.named += scene.named(made) / SWEEP_RELEASES;
        point.found += scene.onTopic(made) / SWEEP_RELEASES;
      }
      await breath();
      if (asked !== drawing) return;
      points.push(point);
      drawCurves(byId('curves'), points, epsilon(), percent);
    }
    sweeps[name] = points;
  }
  if (mechanism() !== name) return;
  drawCurves(byId('curves'), sweeps[name], epsilon(), percent);
  const row = (cell, ...texts) => {
    const made = document.createElement('tr');
    made.append(...texts.map((text) => element(cell, text)));
    return made;
  };
  byId('curves-table').replaceChildren(row('th', 'epsilon', 'the thief names', 'first answers on topic'),
    ...sweeps[name].map(({ epsilon: at, named, found }) => row('td', at, percent(named), percent(found))));
}

try {
  scene = await Scene.load(async (name) => {
    const response = await fetch(new URL(name, import.meta.url));
    if (!response.ok) throw new Error(`${name} is not beside this page`);
    return response.arrayBuffer();
  });
  fillControls();
  byId('scene').hidden = false;
  await releaseAgain();
} catch (error) {
  byId('problem').textContent = `This page cannot run: ${error.message}`;
  byId('problem').hidden = false;
}
