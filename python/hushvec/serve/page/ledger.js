// The ledger: a budget, every charge of its period, whether the hash chain holds; receipts of this tab, and from elsewhere.

import { BudgetBar, loadBudget } from "./budget.js";
import { formatted, left, plural, taken } from "./bounds.js";
import { byId, el, isolated, show } from "./dom.js";
import { kept, receiptView, verify, words } from "./receipts.js";
import { get } from "./requests.js";

const MOST_ROWS = 200;

let bar;
let isOperator = false;
let chosen = ""; // the tenant that an operator reads
let latest = 0; // counts loads: an answer that comes late is not drawn
let rows = new Map(); // charge id -> its row in the table

export function setUpLedger() {
  bar = new BudgetBar(byId("ledger-budget"), { name: "Consumed budget" });
  byId("pasted-receipt-form").addEventListener("submit", (event) => {
    event.preventDefault();
    verifyPasted();
  });
  byId("reload-ledger").addEventListener("click", () => loadLedger());
}

/** From now on for an operator: every tenant's budget. */
export function showTenants() {
  isOperator = true;
  show(byId("tenants-card"));
  show(byId("receipts-card"), false);
}

export async function loadLedger() {
  const problem = byId("ledger-problem"), load = ++latest;
  show(problem, false);
  try {
    const account = isOperator ? await chosenTenant() : await loadBudget();
    const ledger = await get(`/v1/budgets/${encodeURIComponent(account.tenant)}/ledger`);
    if (load !== latest) return;
    show(byId("account"));
    byId("ledger-title").textContent = isOperator ? `Budget of ${account.tenant}` : "Your budget";
    bar.show(account);
    drawFigures(account);
    drawVerdict(ledger);
    drawCharges(ledger.export.rows.filter((row) => row.kind === "charge").reverse());
    drawReceipts();
  } catch (error) {
    if (error.code === "operator_key" || load !== latest) return; // the page loads it again, for an operator
    problem.textContent = error.message;
    show(problem);
    show(byId("account"), false); // what was read before may no longer hold
  }
}

// ---- tenants, for an operator ----

async function chosenTenant() {
  const { tenants } = await get("/v1/tenants");
  const account = tenants.find(({ tenant }) => tenant === chosen) ?? tenants[0];
  chosen = account.tenant;
  drawTenants(tenants);
  return account;
}

function drawTenants(tenants) {
  const focused = document.activeElement?.dataset?.tenant;
  byId("tenants").replaceChildren(...tenants.map(tenantRow));
  if (focused) byId("tenants").querySelector(`[data-tenant="${CSS.escape(focused)}"]`)?.focus();
}

function tenantRow(account) {
  const { tenant, limit, consumed, remaining, charges, renews_at: renews } = account;
  const used = el("span", { class: "bar-used" });
  used.style.width = `${Math.min(100, (100 * consumed.epsilon) / limit.epsilon)}%`;
  return el("tr", { class: tenant === chosen ? "is-chosen" : "" },
    el("td", {}, el("button", { type: "button", class: "link tight", "aria-pressed": String(tenant === chosen), "data-tenant": tenant, onclick: () => choose(tenant) }, tenant)),
    el("td", { class: "consumed" }, el("div", { class: "bar", "aria-hidden": "true" }, used)),
    cell("consumed", taken(consumed.epsilon)), cell("left", left(remaining.epsilon)), cell("limit", formatted(limit.epsilon)),
    cell("charges", formatted(charges)),
    el("td", { class: "time" }, renews ? new Date(renews).toLocaleString([], { dateStyle: "medium", timeStyle: "short" }) : "never"));
}

/** A number, with what it is for layouts that have no room for column heads. */
function cell(name, value) {
  return el("td", { class: "number" }, el("span", { class: "cell-name", "aria-hidden": "true" }, `${name} `), value);
}

function choose(tenant) {
  chosen = tenant;
  loadLedger();
}

// ---- one ledger ----

function drawFigures({ limit, consumed, remaining, renews_at: renews, charges, tenant }) {
  const figures = [
    ["Limit", formatted(limit.epsilon), `delta ${formatted(limit.delta)}`],
    ["Consumed", taken(consumed.epsilon), `delta ${taken(consumed.delta)}`],
    ["Remaining", left(remaining.epsilon), `delta ${left(remaining.delta)}`],
    ["Charges", formatted(charges), `of tenant ${tenant}`],
    ["Renews", renews ? new Date(renews).toLocaleDateString([], { month: "short", day: "numeric" }) : "never",
      renews ? new Date(renews).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" }) : ""],
  ];
  byId("ledger-figures").replaceChildren(...figures.map(([name, value, more]) =>
    el("div", { class: "figure" }, el("dt", {}, name), el("dd", {}, el("strong", {}, value), el("span", { class: "quiet" }, more)))));
}

function drawVerdict({ holds, rows, reason }) {
  byId("chain-verdict").replaceChildren(holds
    ? el("p", { class: "verdict good" }, el("strong", {}, "The chain holds. "), rows === 1 ? "It has only its opening row." : `All ${formatted(rows)} rows, the opening one included, are in order and unchanged.`)
    : el("p", { class: "verdict bad" }, el("strong", {}, "The chain does not hold: "), isolated(reason), ". Stop releasing, and restore the ledger from a copy."));
}

function drawCharges(charges) {
  const receipts = new Map(kept.map(({ receipt }, number) => [receipt.charge?.charge_id, kept.length - number]));
  const hasReceipts = charges.some((row) => receipts.has(row.charge_id));
  show(byId("receipt-column"), hasReceipts);
  rows = new Map(charges.slice(0, MOST_ROWS).map((row) => [row.charge_id, chargeRow(row, hasReceipts, receipts.get(row.charge_id))]));
  show(byId("no-charges"), charges.length === 0);
  show(byId("charges-table"), charges.length > 0);
  byId("charges").replaceChildren(...rows.values());
  const more = charges.length - MOST_ROWS;
  byId("more-charges").textContent = more > 0 ? `${plural(more, "older charge")} not shown; GET /v1/budgets/…/ledger has them all.` : "";
}

function chargeRow(row, hasReceipts, receipt) {
  const [purpose, name] = row.purpose.split("\x1f").reverse(); // docs/budget.md, "Rows"
  return el("tr", { tabindex: -1 },
    el("td", { class: "number" }, row.sequence),
    el("td", { class: "time" }, new Date(row.time_us / 1000).toLocaleString([], { dateStyle: "medium", timeStyle: "medium" })),
    el("td", {}, name ? el("span", { class: "quiet" }, isolated(name), " ") : "", isolated(purpose)),
    el("td", { class: "number" }, formatted(row.epsilon)),
    el("td", { class: `number delta ${Number(row.delta) ? "" : "none"}` }, formatted(row.delta)),
    hasReceipts ? el("td", {}, receipt === undefined ? null : el("button", {
      type: "button", class: "link tight", "aria-label": `Show the receipt of row ${row.sequence}`, onclick: () => openReceipt(receipt),
    }, "Receipt")) : null);
}

// ---- receipts ----

/** Those of this tab; they are numbered from the first release on, so that a number stays the same. */
function drawReceipts() {
  const open = new Set([...byId("receipts").querySelectorAll("details[open]")].map(({ id }) => id));
  show(byId("no-receipts"), kept.length === 0);
  byId("receipts").replaceChildren(...kept.map(({ receipt, output, time }, place) => {
    const id = `receipt-${kept.length - place}`;
    return el("li", {}, el("details", { id, open: open.has(id) },
      el("summary", {}, `${time.toLocaleTimeString()}: epsilon ${formatted(receipt.epsilon)}, ${words(receipt.mechanism)}`),
      paidBy(receipt), el("p", { class: "released" }, "Released: ", el("q", {}, isolated(output))), receiptView(receipt)));
  }));
}

function paidBy({ charge }) {
  const row = rows.get(charge?.charge_id);
  if (!row) return el("p", { class: "quiet small" }, "Its charge is not among the rows above.");
  return el("button", { type: "button", class: "link tight", onclick: () => pointTo(row) }, `Show its charge, row ${charge.sequence}`);
}

function openReceipt(number) {
  const details = byId(`receipt-${number}`);
  details.open = true;
  pointTo(details.querySelector("summary"));
}

function pointTo(element) {
  element.focus({ preventScroll: true });
  element.scrollIntoView({ block: "center" });
}

function verifyPasted() {
  const place = byId("pasted-verdict");
  let receipt;
  try {
    receipt = JSON.parse(byId("pasted-receipt").value);
  } catch {
    receipt = null;
  }
  if (receipt === null || typeof receipt !== "object" || Array.isArray(receipt)) {
    place.replaceChildren(el("p", { class: "verdict bad" }, "This is not a receipt: paste the whole JSON object, from { to }."));
    return;
  }
  verify(receipt, place);
}
