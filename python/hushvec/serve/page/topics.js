// Topics: what many people's notes are about, as noisy votes for topics of public texts; what grew; and the receipt.

import { amongTwo, formatted, percentUp, plural, strength } from "./bounds.js";
import { BudgetBar, budget, loadBudget, onBudget } from "./budget.js";
import { busy, byId, download, el, isolated, show, textOf } from "./dom.js";
import { keep, receiptView } from "./receipts.js";
import { charged } from "./requests.js";

const STEPS = 40; // of the slider
const LARGEST_FILE = 15_000_000;
const SHOWN = 15; // topics; smaller ones are behind a summary
const CHANGES = 5; // that grew most, and as many that fell most

const counted = charged("/v1/topics");
let bar;
let earlier; // the release of an earlier period, if one was opened
let release;

export function setUpTopics() {
  bar = new BudgetBar(byId("topics-budget"), { name: "Consumed budget" });
  for (const area of [byId("topics-notes"), byId("topics-pool")]) {
    const place = byId(`${area.id}-count`), draw = () => { place.textContent = countOf(area.value); };
    area.addEventListener("input", draw);
    onFile(area.id, place, (text) => { area.value = text; draw(); });
  }
  onFile("topics-earlier", byId("topics-earlier"), compareWith);
  byId("topics-without").addEventListener("click", () => compareWith("", ""));
  byId("topics-epsilon").addEventListener("input", drawEpsilon);
  onBudget(setEpsilon);
  byId("count-topics").addEventListener("click", count);
  byId("download-topics").addEventListener("click", () => download("topics.json", `${JSON.stringify(release)}\n`, "application/json"));
}

function onFile(id, place, use) {
  byId(`${id}-file`).addEventListener("change", ({ target }) => {
    const [file] = target.files;
    textOf(file, LARGEST_FILE, "15 MB").then((text) => use(text, file.name)).catch((error) => { place.textContent = error.message; });
    target.value = "";
  });
}

/** The texts of lines, and whose they are where all lines are JSON that says so. Error: a sentence for the user. */
function linesOf(text) {
  const lines = text.split(/\r\n|\n|\r/).map((line) => line.trim()).filter(Boolean);
  if (!lines.every((line) => line.startsWith("{"))) return { texts: lines };
  const rows = lines.map(parsed), named = rows.filter(({ person }) => (person ?? "") !== "");
  if (!rows.every((row) => typeof row.text === "string")) throw new Error("Every line of JSON must have its text in the field “text”.");
  if (named.length % rows.length) throw new Error(`The field “person” must be in all lines or in none; ${formatted(named.length)} have it.`);
  return { texts: rows.map((row) => row.text), people: named.length ? named.map(({ person }) => String(person)) : undefined };
}

function parsed(text) {
  try {
    return JSON.parse(text) ?? {};
  } catch {
    return {};
  }
}

function countOf(text) {
  try {
    const { texts, people } = linesOf(text);
    return texts.length ? `${plural(texts.length, "text")}${people ? ` of ${formatted(new Set(people).size)} people` : ""}` : "";
  } catch (error) {
    return error.message;
  }
}

function compareWith(text, name) {
  const found = parsed(text);
  earlier = found.counts && found;
  show(byId("topics-without"), earlier !== undefined);
  byId("topics-earlier").textContent = name && (earlier ? `Compared with ${name}.` : `${name} is not the .json of an earlier period.`);
}

/** Once: to the step that is nearest to epsilon 1. */
function setEpsilon() {
  const { dataset } = byId("topics-epsilon");
  if (!dataset.isSet) byId("topics-epsilon").value = Math.max(1, Math.round(STEPS / budget.per_request.epsilon));
  dataset.isSet = "yes";
  drawEpsilon();
}

function epsilon() {
  const step = Number(byId("topics-epsilon").value), most = budget.per_request.epsilon;
  return step === STEPS ? most : Number(((most * step) / STEPS).toPrecision(3));
}

function drawEpsilon() {
  if (!budget?.aggregates) return;
  const asked = epsilon(), { delta } = budget.aggregates, most = percentUp(amongTwo(asked, delta));
  byId("topics-epsilon-value").textContent = formatted(asked);
  byId("topics-epsilon").setAttribute("aria-valuetext", `${formatted(asked)}: whether a person is among them is told at most ${most} of the time`);
  byId("topics-epsilon-means").replaceChildren("Whoever knows everybody else's notes tells whether a person is among them at most ", el("strong", {}, most),
    ` of the time; without the release, 50\u00a0%. The guarantee is ${strength(asked)}.`);
  byId("topics-cost").textContent = `Counting takes epsilon ${formatted(asked)} and delta ${formatted(delta)} for each person, however many there are. Counting the same people again takes as much again.`;
  bar.plan(asked);
}

async function count() {
  const button = byId("count-topics"), problem = byId("topics-problem");
  if (button.getAttribute("aria-disabled") === "true" || budget === null) return;
  show(problem, false);
  show(byId("topics-result"), false);
  busy(button, "Counting … a thousand texts take some seconds");
  try {
    const before = budget.consumed.epsilon;
    const found = await counted({ ...linesOf(byId("topics-notes").value), pool_texts: linesOf(byId("topics-pool").value).texts, epsilon: epsilon(), before: earlier });
    keep({ receipt: found.receipt, output: `shares of ${plural(found.names.length - 1, "topic")}` });
    await loadBudget().catch(() => null);
    bar.took(Math.max(0, budget.consumed.epsilon - before));
    draw(found);
  } catch (error) {
    problem.textContent = error.message;
    show(problem);
    loadBudget().catch(() => null);
  } finally {
    busy(button, null);
  }
}

function draw(found) {
  const { shares, intervals, names, growth } = found, last = names.length - 1, order = [...shares.keys()].slice(0, last);
  release = found.release;
  order.sort((one, other) => shares[other] - shares[one]);
  const bars = order.map((one) => barOf(found, one)), smaller = bars.splice(SHOWN), total = release.counts.reduce((sum, one) => sum + one, 0);
  byId("topics-said").replaceChildren(...(intervals.every(([low, high]) => high - low === 1)
    ? ["There are too few notes for this noise: take more people, or more epsilon."]
    : [`Of about ${formatted(Math.round(total))} notes ${percentOf(shares[order[0]])} are about “`, isolated(names[order[0]]), `”, the largest of ${plural(last, "topic")}.`]));
  byId("topics-shares").replaceChildren(el("ol", { class: "shares" }, ...bars),
    smaller.length ? el("details", {}, el("summary", {}, plural(smaller.length, "smaller topic")), el("ol", { class: "shares" }, ...smaller)) : "");
  byId("topics-uncovered").replaceChildren(barOf(found, last));
  show(byId("topics-growth"), growth !== null);
  byId("topics-changes").replaceChildren(...(growth ? growthOf(growth, names) : []));
  byId("topics-receipt").replaceChildren(receiptView(found.receipt));
  show(byId("topics-result"));
  byId("topics-result").focus();
}

function percentOf(share) {
  return `${(100 * Math.max(0, share)).toFixed(1)}\u00a0%`;
}

function barOf({ names, shares, intervals, release: { examples } }, one) {
  const [low, high] = intervals[one], widest = Math.max(...intervals.map(([, end]) => end)), across = (share) => `${(100 * Math.max(0, share)) / widest}%`;
  const part = el("span", { class: "part" }), ends = el("span", { class: "ends" });
  part.style.width = across(shares[one]);
  Object.assign(ends.style, { left: across(low), width: across(high - low) });
  return el("li", {}, el("div", { class: "share-name" }, isolated(one < examples.length ? names[one] : "Uncovered notes"), el("span", {}, percentOf(shares[one]))),
    el("div", { class: "share-bar", "aria-hidden": "true" }, part, ends),
    el("p", { class: "quiet small" }, `${percentOf(low)} to ${percentOf(high)}`, ...(examples[one] ?? []).slice(1, 4).flatMap((text) => [" · ", isolated(text)])));
}

/** What grew most, then what fell most, in standard errors. */
function growthOf({ difference, standard_error: errors, p_values: chances, order }, names) {
  const points = (share) => (100 * Math.abs(share)).toFixed(2);
  return order.filter((_, place) => Math.min(place, order.length - 1 - place) < CHANGES).map((one) => el("li", {},
    el("div", { class: "share-name" }, isolated(names[one]), el("span", {}, `${difference[one] < 0 ? "−" : "+"}${points(difference[one])}`)),
    el("p", { class: "quiet small" }, `± ${points(errors[one])}, p ${chances[one].toPrecision(2)}`)));
}
