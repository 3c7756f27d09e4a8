// The page: access, tabs, and the four sections.

import { loadBudget, onBudget } from "./budget.js";
import { byId, show } from "./dom.js";
import { openExplorer, setUpExplorer } from "./explorer.js";
import { loadLedger, setUpLedger, showTenants } from "./ledger.js";
import { setUpRedactor } from "./redactor.js";
import { access, useKey } from "./requests.js";
import { setUpTabs } from "./tabs.js";
import { setUpTopics } from "./topics.js";

let current = "";

function opened(name) {
  current = name;
  if (name === "explorer") openExplorer();
  if (name === "ledger") loadLedger();
}

/** Loads the budget, or all of them for an operator, who can read and not release. */
async function enter() {
  try {
    await loadBudget();
  } catch (error) {
    if (error.code !== "operator_key") throw error;
    showTenants();
    show(byId("tab-redactor"), false);
    if (current === "redactor" || current === "topics") openTab("ledger");
    else opened(current);
  }
}

access.addEventListener("needed", () => {
  const form = byId("access");
  if (!form.hidden) return;
  show(form);
  byId("api-key").focus();
});

byId("access").addEventListener("submit", async (event) => {
  event.preventDefault();
  useKey(byId("api-key").value);
  const problem = byId("access-problem");
  try {
    await enter();
    problem.textContent = "";
    byId("api-key").value = "";
    show(byId("access"), false);
    opened(current);
  } catch (error) {
    problem.textContent = error.status === 401 ? "The service does not know this key: check that all of it was pasted." : error.message;
  }
});

setUpRedactor();
setUpTopics();
setUpExplorer();
setUpLedger();
const openTab = setUpTabs(byId("tabs"), opened);
onBudget(({ aggregates }) => {
  show(byId("tab-topics"), aggregates !== null);
  if (aggregates === null && current === "topics") openTab("redactor");
});
enter().catch((error) => {
  if (error.status === 401) return;
  byId("page-problem").textContent = error.message;
  show(byId("page-problem"));
});
