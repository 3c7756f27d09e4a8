// The Explorer: releases of an invented note among public sentences, drawn as SVG, and the same as tables.

import { formatted, percent, percentUp } from "./bounds.js";
import { markEpsilon, openCurves, setUpCurves } from "./curves.js";
import { byId, el, paused, show, svg, tableView } from "./dom.js";
import { Reader } from "./reader.js";
import { get } from "./requests.js";

const LOWEST = 0.5;
const STEPS_PER_DOUBLING = 4;
const MARGIN = 26;

let scene = null;
let asking = null;
let reader = null;

export function setUpExplorer() {
  const later = paused(120, load);
  byId("explorer-epsilon").addEventListener("input", () => {
    drawEpsilon();
    later();
  });
  byId("note").addEventListener("change", load);
  byId("as-table").addEventListener("toggle", drawTables);
  new ResizeObserver(paused(60, () => scene && draw())).observe(byId("plot"));
  setUpCurves();
  drawEpsilon();
}

export function openExplorer() {
  openCurves();
  if (scene === null) load();
}

function epsilon() {
  return Number((LOWEST * 2 ** (Number(byId("explorer-epsilon").value) / STEPS_PER_DOUBLING)).toPrecision(3));
}

function drawEpsilon() {
  byId("explorer-epsilon-value").textContent = formatted(epsilon());
  byId("explorer-epsilon").setAttribute("aria-valuetext", `epsilon ${formatted(epsilon())}`);
  markEpsilon(epsilon());
}

async function load() {
  asking?.abort();
  const controller = asking = new AbortController();
  try {
    const found = await get(`/v1/explore?note=${Number(byId("note").value || 1)}&epsilon=${epsilon()}`, controller.signal);
    scene = found;
    reader = null;
    show(byId("explorer-problem"), false);
    show(byId("scene"));
    drawNotes();
    drawAttack();
    draw();
    drawTables();
  } catch (error) {
    if (error.name === "AbortError") return;
    byId("explorer-problem").textContent = error.message;
    show(byId("explorer-problem"));
    show(byId("scene"), false);
  }
}

function drawNotes() {
  const select = byId("note");
  if (select.options.length) return;
  select.append(...scene.notes.map((text, number) => el("option", { value: number }, text)));
  select.value = scene.note.number;
}

function drawAttack() {
  const { right, share, bound, chance, candidates } = scene.attack;
  const figures = [
    ["The attacker is right", percent(share), `${right} of ${scene.releases.length} releases, ${candidates} notes to choose from`, "accent"],
    ["Bound for any attacker", percentUp(bound), `at epsilon ${formatted(scene.epsilon)}, in the long run; ${scene.releases.length} draws vary`, ""],
    ["Blind guess", percent(chance), `1 of ${candidates}, without any release`, ""],
  ];
  byId("attack").replaceChildren(...figures.map(([name, value, more, kind]) =>
    el("div", { class: `figure card ${kind}` }, el("dt", {}, name), el("dd", {}, el("strong", {}, value), el("span", { class: "quiet" }, more)))));
  byId("explorer-status").textContent =
    `At epsilon ${formatted(scene.epsilon)} the attacker finds the right note in ${right} of ${scene.releases.length} releases; the bound is ${percentUp(bound)}.`;
}

// ---- the picture ----

function draw() {
  const place = byId("plot");
  const width = place.clientWidth;
  if (width === 0) return;
  const height = Math.round(Math.min(520, Math.max(320, 0.58 * width)));
  const [toX, toY] = scales(width, height);
  const placed = (shape, one, label) => {
    const x = toX(one.x), y = toY(one.y);
    return { x, y, label, shape: shape(x, y, label) };
  };
  const points = [
    [placed(diamond, scene.note, `The note: ${scene.note.text}`)],
    scene.releases.map((one, number) => placed(one.right ? disc : cross, one, releaseLabel(one, number))),
    scene.sentences.map((one) => placed(dot, one, `Public sentence: ${one.text}`)),
  ];
  const shapes = (group) => points[group].map(({ shape }) => shape);
  const picture = svg("svg", {
    width, height, viewBox: `0 0 ${width} ${height}`, role: "group", "aria-describedby": "plot-help",
    "aria-label": "Releases of the note among public sentences",
  }, svg("g", {}, ...shapes(2)), svg("g", {}, ...shapes(1)), ...shapes(0), noteName(points[0][0], width));
  reader = new Reader(place, picture, points, reader?.at);
  byId("plot-scale").textContent = scaleWords();
}

/** The same scale on both axes, so that everything fits. */
function scales(width, height) {
  const all = [scene.note, ...scene.releases, ...scene.sentences];
  const range = (name) => [Math.min(...all.map((one) => one[name])), Math.max(...all.map((one) => one[name]))];
  const [left, right] = range("x"), [bottom, top] = range("y");
  const scale = Math.min((width - 2 * MARGIN) / (right - left), (height - 2 * MARGIN) / (top - bottom));
  return [(x) => width / 2 + scale * (x - (left + right) / 2), (y) => height / 2 - scale * (y - (bottom + top) / 2)];
}

function point(name, attributes, label) {
  return svg(name, { ...attributes, role: "img", "aria-label": label, tabindex: -1 });
}

function dot(x, y, label) {
  return point("circle", { cx: x, cy: y, r: 2.6, class: "sentence" }, label);
}

function disc(x, y, label) {
  return point("circle", { cx: x, cy: y, r: 5, class: "right" }, label);
}

function cross(x, y, label) {
  const arm = 4;
  return point("path", { d: `M${x - arm} ${y - arm}L${x + arm} ${y + arm}M${x - arm} ${y + arm}L${x + arm} ${y - arm}`, class: "wrong" }, label);
}

function diamond(x, y, label) {
  const arm = 9;
  return point("path", { d: `M${x} ${y - arm}L${x + arm} ${y}L${x} ${y + arm}L${x - arm} ${y}Z`, class: "note" }, label);
}

function noteName({ x, y }, width) {
  const isLeft = x > width - 90;
  return svg("text", { x: isLeft ? x - 14 : x + 14, y: y + 5, class: "note-name", "text-anchor": isLeft ? "end" : "start", "aria-hidden": "true" }, "the note");
}

function releaseLabel({ note, right }, number) {
  return `Release ${number + 1}: the attacker names ${right ? "the right note" : `another note: ${scene.notes[note]}`}`;
}

function scaleWords() {
  const spread = (all, center) => Math.sqrt(all.reduce((sum, one) => sum + (one.x - center.x) ** 2 + (one.y - center.y) ** 2, 0) / all.length);
  const ratio = spread(scene.releases, scene.note) / spread(scene.sentences, { x: 0, y: 0 });
  const words = ratio >= 1.1 ? `${formatted(Number(ratio.toPrecision(2)))} times as wide as` : ratio > 0.9 ? "as wide as" : `${formatted(Number((1 / ratio).toPrecision(2)))} times narrower than`;
  return `Here the releases scatter ${words} the public sentences. The plane shows ${percent(scene.explained)} of how sentences differ; the attacker uses all 384 dimensions.`;
}

// ---- the same in words ----

function drawTables() {
  if (!byId("as-table").open || scene === null) return;
  const releases = scene.releases.map((one, number) =>
    [number + 1, one.right ? "yes" : "no", scene.notes[one.note], scene.sentences[one.sentence].text, place(one)]);
  const sentences = scene.sentences.map((one) => [one.text, place(one)]);
  byId("tables").replaceChildren(
    el("p", {}, `The note “${scene.note.text}” is at ${place(scene.note)}.`),
    tableView("Releases", ["Release", "Right", "Note that the attacker names", "Nearest public sentence", "Place"], releases),
    tableView("Public sentences", ["Sentence", "Place"], sentences));
}

function place({ x, y }) {
  return `${x.toFixed(2)}, ${y.toFixed(2)}`;
}
