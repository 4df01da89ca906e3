// The keyboard: going places, walking through lists, and the sheet that `?` shows. Off while somebody types.

import { all, h, icon, one, undo } from "./dom.js";

const PAIR_MS = 1_200;
const ROWS = ".rows > li:not([hidden])";

const SHEET = [
  ["Ctrl K", "Find a page, a session or an action"],
  ["/", "Search what was said, done and remembered"],
  ["g then s, l, c, p, q, b, o, m, f, a", "Go to sessions, copilot, conversations, approvals, queue, budgets, tools, memories, search, API"],
  ["j  k", "Next, previous row"],
  ["Enter", "Open the row"],
  ["f", "Jump to the newest and follow"],
  ["e", "Next failed row"],
  ["[  ]", "Previous, next tab"],
  ["a  r", "Approve, reject the question that has the focus (approvals); show, drop an insight that waits (copilot)"],
  ["E", "Change it, or fill it in"],
  ["p  d  c", "Keep or dismiss the insight that has the focus, copy what to say (copilot)"],
  ["i", "Write: move to the text field"],
  ["Ctrl Enter", "Send what is written"],
  ["u", "Undo, while the bar is shown"],
  ["y", "Copy the link to this page"],
  ["t", "Theme: as the system, light, dark"],
  ["?", "This sheet"],
  ["Esc", "Close, leave the text field"],
];

let goUntil = 0;

/** One key press, wherever it happened. */
export function onKey(event) {
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") return openPalette();
  if (event.ctrlKey || event.metaKey || event.altKey) return undefined;
  if (isTyping(event.target)) {
    if (event.key === "Escape" && !event.target.closest("dialog")) event.target.blur();
    return undefined;
  }
  if (one("dialog[open]")) return undefined;
  if (Date.now() < goUntil) {
    goUntil = 0;
    return goTo(event.key);
  }
  return PLAIN[event.key]?.(event);
}

const PLAIN = {
  g: () => {
    goUntil = Date.now() + PAIR_MS;
  },
  "/": (event) => {
    event.preventDefault(); // the slash itself is not to be typed
    const box = one("[data-search]");
    if (box) box.select();
    else location.assign("/search");
  },
  j: () => walk(1),
  k: () => walk(-1),
  e: () => walk(1, (row) => row.matches(".failed, [data-status='error'], [data-status='dead'], [data-status='failed']")),
  f: () => one("[data-scroll]")?.dispatchEvent(new CustomEvent("follow")),
  t: () => one("[data-theme-toggle]").click(),
  u: () => undo(),
  y: () => navigator.clipboard?.writeText(location.href).catch(() => {}),
  i: () => setTimeout(() => one(".dock textarea")?.focus()),
  "[": () => turnTab(-1),
  "]": () => turnTab(1),
  "?": () => openSheet(),
};

function isTyping(target) {
  return target instanceof HTMLElement && target.matches("input, textarea, select, [contenteditable]");
}

function goTo(key) {
  const link = all("[data-shortcut]").find((entry) => entry.dataset.shortcut === `g ${key}`);
  if (link) location.assign(link.href);
}

function walk(step, matches = () => true) {
  const rows = all(ROWS).filter(matches);
  if (!rows.length) return;
  const here = document.activeElement?.closest(ROWS);
  const order = all(ROWS);
  const from = here ? order.indexOf(here) : step > 0 ? -1 : order.length;
  const next = step > 0 ? rows.find((row) => order.indexOf(row) > from) : rows.findLast((row) => order.indexOf(row) < from);
  const target = next && one("a.name, button", next);
  target?.focus();
  target?.scrollIntoView({ block: "nearest" });
}

function turnTab(step) {
  const tabs = all(".tabs a");
  const here = tabs.findIndex((tab) => tab.hasAttribute("aria-current"));
  tabs[here + step]?.click();
}

export async function openPalette() {
  const palette = await import("./palette.js");
  palette.open();
}

/** The sheet of shortcuts. */
export function openSheet() {
  const known = one("[data-shortcuts]");
  if (known) return known.showModal();
  const close = h("button", { type: "button", class: "icon-button", "aria-label": "Close", click: () => sheet.close() }, icon("close"));
  const keys = ([press, effect]) => h("div", {}, h("dt", {}, ...press.split(/(?<= {2})/).map((key) => h("kbd", {}, key.trim()))), h("dd", {}, effect));
  const sheet = h(
    "dialog",
    { class: "card-dialog", "data-shortcuts": true, "aria-labelledby": "shortcuts-title" },
    h("header", { class: "sheet-head" }, h("h2", { id: "shortcuts-title" }, "Keyboard"), close),
    h("dl", { class: "shortcuts", tabindex: "0" }, ...SHEET.map(keys)),
  );
  sheet.addEventListener("click", (event) => {
    if (event.target === sheet) sheet.close();
  });
  document.body.append(sheet);
  return sheet.showModal();
}
