// The caller's budget: loaded once for all sections, drawn wherever it is shown.

import { formatted, left, taken } from "./bounds.js";
import { el } from "./dom.js";
import { get } from "./requests.js";

/** The latest answer of GET /v1/budgets; null before the first. */
export let budget = null;

const changes = new EventTarget();

/** Loads the budget and tells everybody who shows it. */
export async function loadBudget() {
  budget = await get("/v1/budgets");
  changes.dispatchEvent(new Event("change"));
  return budget;
}

export function onBudget(call) {
  changes.addEventListener("change", () => call(budget));
}

/** A bar: what is consumed, the latest release in another color, and what the next one would take. */
export class BudgetBar {
  constructor(place, { name }) {
    this.next = 0;
    this.latest = 0;
    this.used = el("span", { class: "bar-used" });
    this.fresh = el("span", { class: "bar-fresh" });
    this.wanted = el("span", { class: "bar-next" });
    this.bar = el("div", { class: "bar", role: "meter", "aria-label": name, "aria-valuemin": 0 }, this.used, this.fresh, this.wanted);
    this.left = el("strong", { class: "budget-left" });
    this.words = el("span", { class: "quiet" });
    place.replaceChildren(el("p", { class: "budget-line" }, this.left, this.words), this.bar);
    this.account = null;
    onBudget((found) => this.show(found));
  }

  /** Shows an account: an answer of the service about a budget. */
  show(account) {
    this.account = account;
    this.draw();
  }

  /** Shows what a release of this epsilon would take. */
  plan(epsilon) {
    this.next = epsilon;
    this.draw();
  }

  /** Marks what the release just made took. */
  took(epsilon) {
    this.latest = epsilon;
    this.draw();
  }

  draw() {
    if (this.account === null) return;
    const { limit, consumed, remaining, exhausted } = this.account;
    const next = Math.min(this.next, remaining.epsilon);
    const share = (epsilon) => `${Math.min(100, (100 * epsilon) / limit.epsilon)}%`;
    this.used.style.width = share(Math.max(0, consumed.epsilon - this.latest));
    this.fresh.style.width = share(this.latest);
    this.fresh.hidden = this.latest === 0;
    this.wanted.style.width = share(next);
    this.left.textContent = `epsilon ${left(remaining.epsilon)} left`;
    this.words.textContent = ` of ${formatted(limit.epsilon)} ${renewal(this.account)}`;
    this.bar.setAttribute("aria-valuemax", limit.epsilon);
    this.bar.setAttribute("aria-valuenow", consumed.epsilon);
    this.bar.setAttribute("aria-valuetext", `${taken(consumed.epsilon)} of ${formatted(limit.epsilon)} consumed`);
    this.bar.classList.toggle("is-full", exhausted);
  }
}

export function renewal(found) {
  if (!found.renews_at) return "in all; this budget does not renew";
  return `until ${new Date(found.renews_at).toLocaleString([], { dateStyle: "medium", timeStyle: "short" })}`;
}
