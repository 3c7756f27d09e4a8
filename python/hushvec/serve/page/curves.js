// What a study measured over epsilon: how much search finds in released vectors, and how many of them an attacker recognizes.

import { amongMany, formatted, percent } from "./bounds.js";
import { byId, el, show, svg, tableView } from "./dom.js";
import { Reader } from "./reader.js";
import { get } from "./requests.js";

const NAMES = {
  codebook: ["Public codebook", "releases one vector of a public list"],
  privunit: ["PrivUnit", "releases a noisy direction"],
  gaussian: ["Gaussian", "adds noise to every number; delta 1e-5"],
};
const SHAPES = { codebook: disc, privunit: square, gaussian: triangle };
const TICKS = [1, 2, 4, 8, 16, 24];
const LEVELS = [0, 0.25, 0.5, 0.75, 1];
const EDGE = { left: 48, right: 18, top: 28, bottom: 46 };
const LOWEST = TICKS[0], HIGHEST = TICKS.at(-1);
const BOUND_STEPS = 80;

const MEASURES = [
  { field: "on_topic", place: "found-curves", name: "What search finds", of: "of the 10 best answers are on topic", share: "on topic among the 10 best answers" },
  { field: "recognized", place: "recognized-curves", name: "Who is recognized", of: "of the posts are recognized", share: "of the posts that are recognized" },
];

let study = null;
let chosen = 1;
const readers = {};

export function setUpCurves() {
  for (const { place } of MEASURES) new ResizeObserver(() => draw()).observe(byId(place));
}

/** Loads the study, once. */
export async function openCurves() {
  if (study !== null) return;
  try {
    study = await get("/page/study.json");
  } catch (error) {
    byId("curves-problem").textContent = error.message;
    return show(byId("curves-problem"));
  }
  show(byId("curves-problem"), false);
  byId("curves-source").replaceChildren(...source());
  byId("curves-legend").replaceChildren(...study.lines.map(({ mechanism }) => legendItem(mechanism)));
  byId("curves-tables").replaceChildren(...MEASURES.map(measureTable));
  markEpsilon(chosen);
}

/** Marks the epsilon of the slider. */
export function markEpsilon(epsilon) {
  chosen = epsilon;
  draw();
}

function draw() {
  if (study === null) return;
  MEASURES.forEach(drawMeasure);
  byId("curves-now").textContent = now();
}

// ---- one chart ----

function drawMeasure({ field, place: id, name, of }) {
  const place = byId(id), width = place.clientWidth;
  if (width === 0) return;
  const height = Math.round(Math.min(320, Math.max(260, 0.66 * width)));
  const toX = (epsilon) => EDGE.left + (width - EDGE.left - EDGE.right) * Math.log(epsilon / LOWEST) / Math.log(HIGHEST / LOWEST);
  const toY = (share) => height - EDGE.bottom - (height - EDGE.bottom - EDGE.top) * share;
  const groups = study.lines.map((line) => line.epsilons.map((epsilon, number) => {
    const share = line[field][number], x = toX(epsilon), y = toY(share);
    const label = `${NAMES[line.mechanism][0]}, epsilon ${formatted(epsilon)}: ${shareWords(share)} ${of}`;
    const shape = SHAPES[line.mechanism](x, y, { class: `mark-${line.mechanism}`, role: "img", "aria-label": label, tabindex: -1 });
    return { x, y, label, shape };
  }));
  const picture = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": `${name}, over epsilon`, "aria-describedby": "curves-help" },
    ...frame(toX, toY), ...(field === "on_topic" ? levels(toX, toY) : bound(toX, toY)), ...marker(toX, toY),
    ...study.lines.map(({ mechanism }, number) => svg("path", { class: `line line-${mechanism}`, d: pathOf(groups[number]) })),
    ...groups.flat().map(({ shape }) => shape));
  readers[field] = new Reader(place, picture, groups, readers[field]?.at);
}

function frame(toX, toY) {
  const lines = LEVELS.map((share) => rule(toX(LOWEST), toY(share), toX(HIGHEST), toY(share), "grid"));
  const shares = LEVELS.map((share) => words(toX(LOWEST) - 8, toY(share) + 4, `${100 * share}\u00a0%`, { "text-anchor": "end" }));
  const epsilons = TICKS.map((tick) => words(toX(tick), toY(0) + 18, tick, { "text-anchor": "middle" }));
  const title = words((toX(LOWEST) + toX(HIGHEST)) / 2, toY(0) + 38, "epsilon (more epsilon is less privacy)", { "text-anchor": "middle" });
  return [...lines, ...shares, ...epsilons, title];
}

/** What search finds without noise, and what a list in random order has. */
function levels(toX, toY) {
  const across = (share) => rule(toX(LOWEST), toY(share), toX(HIGHEST), toY(share), "level");
  return [
    across(study.clean), words(toX(LOWEST) + 6, toY(study.clean) - 6, `clean vectors, ${percent(study.clean)}`),
    across(study.chance), words(toX(HIGHEST) - 4, toY(study.chance) + 15, `by chance, ${percent(study.chance)}`, { "text-anchor": "end" }),
  ];
}

/** The most that any attacker reaches, where delta is 0. */
function bound(toX, toY) {
  const points = Array.from({ length: BOUND_STEPS + 1 }, (_, step) => {
    const epsilon = LOWEST * (HIGHEST / LOWEST) ** (step / BOUND_STEPS);
    return { x: toX(epsilon), y: toY(amongMany(study.private, epsilon)) };
  });
  return [svg("path", { class: "level", d: pathOf(points) }),
    words(toX(7.6), toY(0.62), "most that epsilon allows", { "text-anchor": "end" })];
}

function marker(toX, toY) {
  if (!isMeasured(chosen)) return [];
  const x = toX(chosen);
  const anchor = x < toX(2) ? "start" : x > toX(12) ? "end" : "middle";
  return [rule(x, toY(1) - 8, x, toY(0), "marker"),
    words(x, toY(1) - 14, `slider: epsilon ${formatted(chosen)}`, { "text-anchor": anchor, class: "marker-name" })];
}

function rule(x1, y1, x2, y2, kind) {
  return svg("line", { x1, y1, x2, y2, class: kind });
}

function words(x, y, text, more = {}) {
  return svg("text", { x, y, "aria-hidden": "true", ...more }, text);
}

function pathOf(points) {
  return `M${points.map(({ x, y }) => `${x.toFixed(1)} ${y.toFixed(1)}`).join("L")}`;
}

function disc(x, y, more) {
  return svg("circle", { cx: x, cy: y, r: 4.5, ...more });
}

function square(x, y, more) {
  return svg("rect", { x: x - 4, y: y - 4, width: 8, height: 8, ...more });
}

function triangle(x, y, more) {
  return svg("path", { d: `M${x} ${y - 5.5}L${x + 5.5} ${y + 4.5}L${x - 5.5} ${y + 4.5}Z`, ...more });
}

// ---- the same in words ----

function source() {
  return [`Measured once, by a study: ${study.private.toLocaleString("en-US")} posts of 20 Newsgroups as MiniLM vectors (all-MiniLM-L6-v2), each released three times. `,
    `What a mechanism may adapt to came from ${study.public.toLocaleString("en-US")} other posts. The attacker has all clean vectors and names the likeliest post for each released one; a blind guess is right in 1 of ${study.private.toLocaleString("en-US")}. `,
    "Program and results are in hushvec's repository: ", el("code", {}, "studies/hushvec_studies/overview"), "."];
}

function legendItem(mechanism) {
  const [name, what] = NAMES[mechanism];
  const sample = svg("svg", { width: 40, height: 14, "aria-hidden": "true" },
    svg("path", { class: `line line-${mechanism}`, d: "M1 7L39 7" }), SHAPES[mechanism](20, 7, { class: `mark-${mechanism}` }));
  return el("li", {}, sample, el("span", {}, el("strong", {}, name), ` ${what}`));
}

function now() {
  if (!isMeasured(chosen)) return `The slider's epsilon, ${formatted(chosen)}, is outside what was measured: ${LOWEST} to ${HIGHEST}.`;
  const { epsilons } = study.lines[0];
  const distance = (epsilon) => Math.abs(Math.log(epsilon / chosen));
  const near = epsilons.reduce((best, one) => (distance(one) < distance(best) ? one : best));
  const number = epsilons.indexOf(near);
  const each = study.lines.map((line) =>
    `${NAMES[line.mechanism][0]}: ${shareWords(line.on_topic[number])} on topic, ${shareWords(line.recognized[number])} recognized`);
  const where = near === chosen ? `At epsilon ${formatted(near)}` : `At epsilon ${formatted(near)}, the measured one nearest to ${formatted(chosen)}`;
  return `${where}. ${each.join(". ")}.`;
}

function isMeasured(epsilon) {
  return epsilon >= LOWEST && epsilon <= HIGHEST;
}

function measureTable({ field, name, share: what }) {
  const columns = ["Epsilon", ...study.lines.map(({ mechanism }) => NAMES[mechanism][0])];
  const rows = study.lines[0].epsilons.map((epsilon, number) => [formatted(epsilon), ...study.lines.map((line) => shareWords(line[field][number]))]);
  return tableView(`${name}: share ${what}`, columns, rows);
}

function shareWords(share) {
  return share < 0.0005 ? "under 0.1\u00a0%" : percent(share);
}
