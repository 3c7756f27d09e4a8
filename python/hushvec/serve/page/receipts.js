// Receipts as a table, as JSON, and checked by the service.

import { amongTwo, formatted, percentUp, plural } from "./bounds.js";
import { copy, download, el, isolated } from "./dom.js";
import { post } from "./requests.js";

const VERDICTS = {
  "holds": ["good", "The receipt holds."],
  "does not hold": ["bad", "The receipt does not hold."],
  "not a DP claim": ["bad", "The receipt claims no differential privacy."],
};

/** Releases that this tab made, latest first: {receipt, output, time}. They are gone with the tab. */
export const kept = [];

export function keep({ receipt, output }) {
  kept.unshift({ receipt, output, time: new Date() });
}

/** A receipt: what it says in words, all of it as JSON, and buttons. */
export function receiptView(receipt) {
  const raw = JSON.stringify(receipt, null, 2);
  const verdict = el("div", { role: "status", class: "verdict-place" });
  return el("div", { class: "receipt" },
    el("div", { class: "table-scroll" },
      el("table", { class: "facts" },
        el("caption", { class: "hidden-words" }, "The receipt in words"),
        el("tbody", {}, ...facts(receipt).map(([name, value]) => el("tr", {}, el("th", { scope: "row" }, name), el("td", {}, value)))))),
    el("div", { class: "actions" },
      el("button", { type: "button", class: "secondary", onclick: () => verify(receipt, verdict) }, "Verify"),
      el("button", { type: "button", class: "secondary", onclick: (event) => copy(event.target, raw) }, "Copy the receipt"),
      el("button", { type: "button", class: "secondary", onclick: () => download("receipt.json", raw + "\n", "application/json") }, "Download it")),
    verdict,
    el("details", {}, el("summary", {}, "Raw JSON"), el("pre", { tabindex: 0, role: "group", "aria-label": "The receipt as JSON" }, isolated(raw))));
}

/** Asks the service whether the guarantee follows from the parameters. */
export async function verify(receipt, place) {
  place.replaceChildren("Checking …");
  try {
    const { status, reasons } = await post("/v1/receipts/verify", { receipt });
    const [kind, sentence] = VERDICTS[status] ?? ["bad", `The receipt: ${status}.`];
    place.replaceChildren(el("p", { class: `verdict ${kind}` }, el("strong", {}, sentence), " ", isolated(reasons.join("; "))));
  } catch (problem) {
    place.replaceChildren(el("p", { class: "verdict bad" }, problem.message));
  }
}

function facts(receipt) {
  const found = [["Guarantee", guarantee(receipt)]];
  const isOfMany = receipt.receipt_kind === "aggregate";
  if (receipt.is_dp_claim) {
    const knows = isOfMany ? "what everybody else wrote tells whether a person is among them, and is right" : "that it was one of two texts picks the right one";
    found.push(["Attacker", `who knows ${knows} at most ${percentUp(amongTwo(receipt.epsilon, receipt.delta))} of the time`]);
  }
  found.push(["Mechanism", receipt.label_count ? `${words(receipt.mechanism)} among ${receipt.label_count} public texts` : words(receipt.mechanism)]);
  if (isOfMany) found.push(["Unit", `one person with at most ${plural(receipt.rows_per_person, "row")}; ${receipt.rows_bound === "people" ? "further ones were dropped" : "whoever sent them promised it"}`]);
  else found.push(["Unit", receipt.per === "release" ? "everything in it is about one person" : "each row is about another person"]);
  found.push(["Arithmetic", `${receipt.grade}; randomness from ${receipt.key_source === "os" ? "the operating system" : receipt.key_source} through ${receipt.cipher}`]);
  if (receipt.charge) found.push(["Paid by", `row ${receipt.charge.sequence} of ledger ${receipt.charge.ledger.slice(0, 12)}…`]);
  if (receipt.notes?.length) found.push(["Notes", el("ul", { class: "notes" }, ...receipt.notes.map((note) => el("li", {}, isolated(note))))]);
  return found;
}

function guarantee({ epsilon, delta, is_dp_claim: isClaim }) {
  const parameters = `epsilon ${formatted(epsilon)}, delta ${formatted(delta)}`;
  return isClaim ? `differential privacy with ${parameters}` : `none (${parameters})`;
}

export function words(name) {
  return String(name).replaceAll("_", " ");
}
