// Tabs: one of several panes is shown; arrows go from tab to tab.

import { all } from "./dom.js";

/** Wire the tabs that match; `onChosen` hears each that is chosen. Answers how to choose one, by a value of its data. */
export function wireTabs(selector, onChosen) {
  const tabs = all(selector);
  const turn = (tab) => {
    choose(tabs, tab);
    onChosen?.(tab);
  };
  for (const tab of tabs) {
    tab.addEventListener("click", () => turn(tab));
    tab.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      const next = tabs[(tabs.indexOf(tab) + step + tabs.length) % tabs.length];
      next.focus();
      turn(next);
    });
  }
  return (name) => turn(tabs.find((tab) => Object.values(tab.dataset).includes(name)));
}

function choose(tabs, tab) {
  for (const each of tabs) {
    const isChosen = each === tab;
    each.setAttribute("aria-selected", String(isChosen));
    each.tabIndex = isChosen ? 0 : -1;
    document.getElementById(each.getAttribute("aria-controls")).hidden = !isChosen;
  }
}
