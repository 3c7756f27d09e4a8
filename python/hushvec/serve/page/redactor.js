// The Document Redactor: finds, what stays, before and after, and the private rewriting with its receipt.

import { amongTwo, formatted, percentUp, plural, strength, taken } from "./bounds.js";
import { BudgetBar, budget, loadBudget, onBudget } from "./budget.js";
import { busy, byId, copy, download, el, isolated, paused, show, textOf, unseenIn, visible } from "./dom.js";
import { expectation, keptShare, meansOf, titleOf } from "./mechanisms.js";
import { keep, receiptView } from "./receipts.js";
import { charged, post } from "./requests.js";

const EXAMPLE = `Discharge note, 14 March 2024
Mrs. Edith Varga (born 3 March 1947, MRN 48213377) was admitted with high blood sugar. She lives at 12 Orchard Lane, \
Larkhill. Her daughter can be reached at 415-555-0188 or ines.varga@example.org. Dr. Samuel Okoro adjusted the insulin; \
Edith Varga should check her blood sugar before every meal. The invoice goes to IBAN DE89 3704 0044 0532 0130 00.`;

const STEPS = 40; // of the slider
const LARGEST_FILE = 1_000_000;
const ENOUGH = 0.5; // of texts that keep their subject: the slider starts at the smallest epsilon that has it
const PAUSE = 400; // milliseconds without a keystroke

const KINDS = {
  "full person name": "person", "title": "person", "age": "person",
  "email address": "contact", "phone number": "contact", "web address": "contact",
  "ip address": "network", "hardware address": "network", "credential": "network",
  "street address": "place", "postal code": "place", "location": "place",
  "date": "date", "organization": "organization",
  "card number": "money", "bank account number": "money", "account number": "money",
  "social security number": "number", "tax number": "number", "medical record number": "number", "identity document number": "number",
};

const state = {
  text: "",
  finds: new Map(), // everything that was ever found in this text: "category\ntext" -> {category, text, places}
  keptTexts: new Set(),
  keptCategories: new Set(),
  redacted: "",
  asking: null, // AbortController of the request under way
};

const released = charged("/v1/rewrite");
let bar;

export function setUpRedactor() {
  bar = new BudgetBar(byId("redactor-budget"), { name: "Consumed budget" });
  setUpSource();
  const slider = byId("epsilon");
  Object.assign(slider, { min: 1, max: STEPS, step: 1 });
  slider.addEventListener("input", drawEpsilon);
  byId("mechanism").addEventListener("change", drawEpsilon);
  onBudget(drawMechanisms);
  onBudget(setSlider);
  onBudget(drawEpsilon);
  byId("rewrite").addEventListener("click", rewrite);
  byId("copy-redacted").addEventListener("click", (event) => copy(event.target, state.redacted));
  byId("download-redacted").addEventListener("click", () => download("redacted.txt", state.redacted, "text/plain"));
  byId("copy-rewritten").addEventListener("click", (event) => copy(event.target, byId("rewritten").textContent));
  byId("download-rewritten").addEventListener("click", () => download("rewritten.txt", byId("rewritten").textContent + "\n", "text/plain"));
}

// ---- the text ----

function setUpSource() {
  const source = byId("source");
  const later = paused(PAUSE, () => newText(source.value));
  source.addEventListener("input", later);
  byId("use-example").addEventListener("click", () => fill(EXAMPLE));
  byId("file").addEventListener("change", (event) => {
    if (event.target.files.length) read(event.target.files[0]);
    event.target.value = "";
  });
  for (const name of ["dragover", "dragenter"]) {
    source.addEventListener(name, (event) => {
      if (!event.dataTransfer.types.includes("Files")) return;
      event.preventDefault();
      source.classList.add("is-target");
    });
  }
  source.addEventListener("dragleave", () => source.classList.remove("is-target"));
  source.addEventListener("drop", (event) => {
    source.classList.remove("is-target");
    if (!event.dataTransfer.files.length) return;
    event.preventDefault();
    read(event.dataTransfer.files[0]);
  });
}

async function read(file) {
  try {
    fill(await textOf(file, LARGEST_FILE, "1 MB"));
  } catch (error) {
    sayOfSource(error.message);
  }
}

function fill(text) {
  byId("source").value = text;
  newText(text);
}

function newText(text) {
  if (text === state.text) return;
  Object.assign(state, { text, finds: new Map(), keptTexts: new Set(), keptCategories: new Set() });
  show(byId("result"), false);
  show(byId("rewrite-problem"), false);
  redact().then((done) => done || show(byId("found"), false)); // else what was found in another text would stay
}

function sayOfSource(sentence) {
  byId("source-problem").textContent = sentence;
}

// ---- redaction ----

/** Asks what is found, and shows it; false if that failed. */
async function redact() {
  state.asking?.abort();
  sayOfSource("");
  const isEmpty = !state.text.trim();
  show(byId("why"), isEmpty);
  if (isEmpty) {
    show(byId("found"), false);
    return true;
  }
  const asking = state.asking = new AbortController();
  const text = state.text;
  try {
    const { text: redacted, spans } = await post("/v1/redact", { text, ...allowed() }, { signal: asking.signal });
    if (asking.signal.aborted) return true;
    state.redacted = redacted;
    drawFound(text, redacted, spans);
  } catch (error) {
    if (error.name === "AbortError") return true;
    sayOfSource(error.message);
    return false;
  }
  return true;
}

function allowed() {
  return { allow_categories: [...state.keptCategories], allow_list: [...state.keptTexts] };
}

function drawFound(text, redacted, spans) {
  const characters = Array.from(text); // offsets count code points
  const found = spans.map((span) => ({ ...span, text: characters.slice(span.start, span.end).join("") }));
  found.forEach(remember);
  drawCategories();
  const all = [...found, ...keptSpans(found)].sort((one, other) => one.start - other.start);
  const after = piecesOf(characters, all, (span) => mark(span, span.isKept ? span.text : span.placeholder, span.isKept ? "kept" : "placeholder"));
  byId("before").replaceChildren(...piecesOf(characters, all, (span) => mark(span, span.text, span.isKept ? "kept" : "")));
  byId("after").replaceChildren(...(lettersOf(after) === redacted ? after : visible(redacted)));
  const stubborn = new Set(found.map((span) => span.text).filter((one) => state.keptTexts.has(one)));
  byId("part-of-longer").replaceChildren(...[...stubborn].flatMap((one) =>
    ["“", isolated(one), "” is part of a longer find, and stays replaced while that is switched on. "]));
  const unseen = unseenIn(text);
  byId("unseen").textContent = unseen ? `The text has ${plural(unseen, "character")} that ${unseen === 1 ? "is" : "are"} not visible. Such characters can hide a name from the rules or reverse the order of letters; below they are shown by their code points.` : "";
  const replaced = `${found.length} ${found.length === 1 ? "find is" : "finds are"} replaced`;
  byId("found-count").textContent = state.finds.size ? replaced : "Nothing was found; that does not mean that nothing is there.";
  byId("redact-status").textContent = `Redaction updated: ${replaced}.`;
  show(byId("found-help"), state.finds.size > 0);
  show(byId("found"));
}

/** Adds a find and where it is. One that is switched off is no longer reported, so its places are remembered. */
function remember(span) {
  const name = `${span.category}\n${span.text}`;
  if (!state.finds.has(name)) state.finds.set(name, { category: span.category, text: span.text, places: new Map() });
  state.finds.get(name).places.set(span.start, span);
}

/** What was found before, stays now, and lies outside all present finds. */
function keptSpans(found) {
  const free = (span) => found.every((other) => span.end <= other.start || other.end <= span.start);
  const kept = [...state.finds.values()].filter(isKept).flatMap((find) => [...find.places.values()]).filter(free);
  kept.sort((one, other) => one.start - other.start || other.end - one.end);
  let end = 0;
  return kept.filter((span) => span.start >= end && (end = span.end)).map((span) => ({ ...span, isKept: true }));
}

function piecesOf(characters, spans, marked) {
  const pieces = [];
  let end = 0;
  for (const span of spans) {
    pieces.push(...visible(characters.slice(end, span.start).join("")), marked(span));
    end = span.end;
  }
  pieces.push(...visible(characters.slice(end).join("")));
  return pieces;
}

function lettersOf(pieces) {
  return pieces.map((piece) => (typeof piece === "string" ? piece : piece.textContent)).join("");
}

function mark({ category }, words, more = "") {
  return el("mark", { class: `kind-${kindOf(category)} ${more}`, title: more === "kept" ? `${category}, stays in the text` : category }, ...visible(words));
}

function kindOf(category) {
  return KINDS[category] ?? "other";
}

function isKept({ category, text }) {
  return state.keptCategories.has(category) || state.keptTexts.has(text);
}

function drawCategories() {
  const groups = new Map();
  for (const find of state.finds.values()) groups.set(find.category, [...(groups.get(find.category) ?? []), find]);
  const focused = document.activeElement?.dataset?.find;
  byId("categories").replaceChildren(...[...groups].map(([category, finds]) => categoryView(category, finds)));
  if (focused) byId("categories").querySelector(`[data-find="${CSS.escape(focused)}"]`)?.focus();
}

function categoryView(category, finds) {
  const isOn = !state.keptCategories.has(category);
  const count = finds.reduce((sum, find) => sum + find.places.size, 0);
  const toggle = el("button", {
    type: "button", role: "switch", "aria-checked": String(isOn), class: "category", "data-find": category,
    "aria-label": `Replace every ${category} (${count} found)`, onclick: () => flip(state.keptCategories, category),
  }, el("span", { class: "switch", "aria-hidden": "true" }), el("span", { class: "category-name" }, category), el("span", { class: "count" }, count));
  const chips = finds.map((find) => chipView(find, isOn));
  return el("li", { class: `kind-${kindOf(category)}` }, toggle, el("ul", { class: "chips", "aria-label": category }, ...chips));
}

function chipView(find, categoryIsOn) {
  const isOn = categoryIsOn && !state.keptTexts.has(find.text);
  return el("li", {}, el("button", {
    type: "button", class: "chip", "aria-pressed": String(isOn), disabled: !categoryIsOn, "data-find": `${find.category}\n${find.text}`,
    title: isOn ? "Replaced. Press to let it stay." : "Stays in the text. Press to replace it.",
    onclick: () => flip(state.keptTexts, find.text),
  }, el("span", { class: "chip-text" }, isolated(find.text)), find.places.size > 1 ? el("span", { class: "count" }, `×${find.places.size}`) : null));
}

function flip(set, value) {
  const change = () => set.delete(value) || set.add(value);
  change();
  redact().then((done) => done || change());
}

// ---- rewriting ----

/** Once: to the smallest epsilon at which half of the texts keep their subject; to the middle if none does. */
function setSlider() {
  const slider = byId("epsilon"), { mechanism } = chosenMechanism();
  if (slider.dataset.isSet) return;
  slider.dataset.isSet = "yes";
  const steps = Array.from({ length: STEPS }, (_, number) => number + 1);
  slider.value = steps.find((step) => keptShare(mechanism, epsilon(step)) >= ENOUGH) ?? STEPS / 2;
}

function epsilon(step = Number(byId("epsilon").value)) {
  const most = budget.per_request.epsilon;
  return step === STEPS ? most : Number(((most * step) / STEPS).toPrecision(3));
}

/** What the policy and its budget allow; a choice that is still there stays. */
function drawMechanisms() {
  const select = byId("mechanism"), offered = budget.rewriting.map(({ mechanism }) => mechanism);
  if ([...select.options].map(({ value }) => value).join() === offered.join()) return;
  const before = select.value;
  select.replaceChildren(...offered.map((name) => el("option", { value: name }, titleOf(name))));
  if (offered.includes(before)) select.value = before;
}

function chosenMechanism() {
  return budget.rewriting.find(({ mechanism }) => mechanism === byId("mechanism").value) ?? budget.rewriting[0];
}

/** How many such releases the budget pays for. */
function releasesLeft(asked, delta) {
  const fit = (left, cost) => (cost > 0 ? Math.floor((left / cost) * (1 + 1e-12)) : Infinity);
  return Math.min(fit(budget.remaining.epsilon, asked), fit(budget.remaining.delta, delta));
}

function drawEpsilon() {
  if (budget === null) return;
  const asked = epsilon(), { mechanism, delta } = chosenMechanism();
  const most = percentUp(amongTwo(asked, delta));
  byId("mechanism-means").textContent = meansOf(mechanism);
  byId("epsilon-value").textContent = formatted(asked);
  byId("epsilon").setAttribute("aria-valuetext", `${formatted(asked)}: an attacker who knows two texts, one of them yours, picks yours at most ${most} of the time`);
  byId("epsilon-means").replaceChildren("An attacker who knows two texts, one of them yours, picks yours at most ", el("strong", {}, most),
    ` of the time; without the release, 50\u00a0%. ${capital(strength(asked))}.`);
  byId("expectation").textContent = expectation(mechanism, asked);
  const more = releasesLeft(asked, delta);
  const cost = delta ? `epsilon ${formatted(asked)} and delta ${formatted(delta)}` : `epsilon ${formatted(asked)}`;
  byId("cost").textContent = more
    ? `This release takes ${cost} for the person in the text. The budget covers ${formatted(more)} like it.`
    : `This release takes ${cost}: more than what is left.`;
  bar.plan(asked);
}

async function rewrite() {
  const button = byId("rewrite");
  if (button.getAttribute("aria-disabled") === "true" || budget === null) return;
  const fields = { text: state.text, epsilon: epsilon(), mechanism: chosenMechanism().mechanism, ...allowed() };
  show(byId("rewrite-problem"), false);
  show(byId("result"), false); // an earlier release, which stays in the Ledger's list
  busy(button, "Rewriting … the first time loads a model");
  try {
    const before = budget.consumed.epsilon;
    const found = await released(fields);
    if (found.receipt) keep(found);
    await loadBudget().catch(() => null);
    if (fields.text === state.text) drawReleased(found, before);
  } catch (error) {
    byId("rewrite-problem").textContent = error.message;
    show(byId("rewrite-problem"));
    loadBudget().catch(() => null);
  } finally {
    busy(button, null);
  }
}

function drawReleased({ output, receipt, warning }, before) {
  byId("rewritten").replaceChildren(...visible(output));
  byId("receipt").replaceChildren(receipt ? receiptView(receipt) : "Nothing was left to release, so there is no receipt and no charge.");
  byId("release-warning").textContent = warning ? `${capital(warning)}.` : "";
  bar.took(Math.max(0, budget.consumed.epsilon - before));
  byId("spent").textContent = `Budget consumed: epsilon ${taken(before)} → ${taken(budget.consumed.epsilon)}`;
  show(byId("result"));
  byId("result").focus({ preventScroll: true });
  byId("result").scrollIntoView({ block: "nearest" });
}

function capital(words) {
  return words[0].toUpperCase() + words.slice(1);
}
