// The ledger: the budget, every charge of the period, whether the hash chain holds; and receipts from elsewhere.

import { BudgetBar, loadBudget } from "./budget.js";
import { formatted } from "./bounds.js";
import { byId, el, show } from "./dom.js";
import { verify } from "./receipts.js";
import { get } from "./requests.js";

const MOST_ROWS = 200;

export function setUpLedger() {
  new BudgetBar(byId("ledger-budget"), { name: "Consumed budget" });
  byId("pasted-receipt-form").addEventListener("submit", (event) => {
    event.preventDefault();
    verifyPasted();
  });
  byId("reload-ledger").addEventListener("click", () => loadLedger());
}

export async function loadLedger() {
  const problem = byId("ledger-problem");
  show(problem, false);
  try {
    const budget = await loadBudget();
    const ledger = await get(`/v1/budgets/${encodeURIComponent(budget.tenant)}/ledger`);
    drawFigures(budget);
    drawVerdict(ledger);
    drawCharges(ledger.export.rows.filter((row) => row.kind === "charge").reverse());
  } catch (error) {
    problem.textContent = error.message;
    show(problem);
  }
}

function drawFigures({ limit, consumed, remaining, renews_at: renews, charges, tenant }) {
  const figures = [
    ["Limit", formatted(limit.epsilon), `delta ${formatted(limit.delta)}`],
    ["Consumed", formatted(consumed.epsilon), `delta ${formatted(consumed.delta)}`],
    ["Remaining", formatted(remaining.epsilon), `delta ${formatted(remaining.delta)}`],
    ["Charges", formatted(charges), `of tenant ${tenant}`],
    ["Renews", renews ? new Date(renews).toLocaleDateString([], { month: "short", day: "numeric" }) : "never",
      renews ? new Date(renews).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" }) : ""],
  ];
  byId("ledger-figures").replaceChildren(...figures.map(([name, value, more]) =>
    el("div", { class: "figure" }, el("dt", {}, name), el("dd", {}, el("strong", {}, value), el("span", { class: "quiet" }, more)))));
}

function drawVerdict({ holds, rows, reason }) {
  byId("chain-verdict").replaceChildren(holds
    ? el("p", { class: "verdict good" }, el("strong", {}, "The chain holds. "), `All ${rows} rows, the opening one included, are in order and unchanged.`)
    : el("p", { class: "verdict bad" }, el("strong", {}, "The chain does not hold: "), `${reason}. Stop releasing, and restore the ledger from a copy.`));
}

function drawCharges(charges) {
  show(byId("no-charges"), charges.length === 0);
  show(byId("charges-table"), charges.length > 0);
  byId("charges").replaceChildren(...charges.slice(0, MOST_ROWS).map((row) =>
    el("tr", {},
      el("td", { class: "number" }, row.sequence),
      el("td", { class: "time" }, new Date(row.time_us / 1000).toLocaleString([], { dateStyle: "medium", timeStyle: "medium" })),
      el("td", {}, row.purpose),
      el("td", { class: "number" }, formatted(row.epsilon)),
      el("td", { class: "number" }, formatted(row.delta)))));
  const more = charges.length - MOST_ROWS;
  byId("more-charges").textContent = more > 0 ? `${more} older charges are not shown; GET /v1/budgets/…/ledger has them all.` : "";
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
