// Tabs by the ARIA pattern: one stop for the TAB key, arrows, Home and End between tabs.

/** Makes a tablist work; `opened(name)` is called for the panel that is shown. Returns what opens a panel by its name. */
export function setUpTabs(list, opened) {
  const tabs = [...list.querySelectorAll("[role=tab]")];

  function open(tab, { focus = false } = {}) {
    for (const one of tabs) {
      const chosen = one === tab;
      one.setAttribute("aria-selected", String(chosen));
      one.tabIndex = chosen ? 0 : -1;
      document.getElementById(one.getAttribute("aria-controls")).hidden = !chosen;
    }
    if (focus) tab.focus();
    scrollTo(0, 0);
    history.replaceState(null, "", `#${tab.dataset.name}`);
    opened(tab.dataset.name);
  }

  list.addEventListener("click", (event) => {
    const tab = event.target.closest("[role=tab]");
    if (tab) open(tab);
  });
  list.addEventListener("keydown", (event) => {
    const shown = tabs.filter((tab) => !tab.hidden);
    const at = shown.indexOf(document.activeElement);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: shown.length - 1 }[event.key];
    if (at < 0 || to === undefined) return;
    event.preventDefault();
    open(shown[(to + shown.length) % shown.length], { focus: true });
  });

  const named = tabs.find((tab) => `#${tab.dataset.name}` === location.hash);
  open(named ?? tabs[0]);
  return (name) => open(tabs.find((tab) => tab.dataset.name === name));
}
