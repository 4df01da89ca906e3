// Ctrl-K: pages, sessions by name or by a pasted id, and what can be done on this page. Works from memory when offline.

import { all, ask, h, icon, one, sessionPath, shortId, stateOf } from "./dom.js";

const MEMORY = "stepwell.palette";
const SHOWN = 12;
const LOOKS_LIKE_ID = /^[\w.:-]{6,}$/;

let dialog = null;
let input = null;
let list = null;
let sessions = [];
let entries = [];
let chosen = 0;

/** Open the palette with the newest sessions in it. */
export function open() {
  dialog ??= build();
  if (dialog.open) return;
  input.value = "";
  sessions = remembered();
  dialog.showModal();
  show();
  refresh();
}

function build() {
  input = h("input", {
    type: "text",
    role: "combobox",
    placeholder: "A page, a session's name, an id, an action",
    "aria-label": "Find or do",
    "aria-expanded": "true",
    "aria-controls": "palette-list",
    "aria-autocomplete": "list",
    autocomplete: "off",
    spellcheck: "false",
    input: () => {
      chosen = 0;
      show();
    },
    keydown: onKey,
  });
  list = h("ul", { id: "palette-list", role: "listbox", "aria-label": "What was found" });
  const made = h("dialog", { class: "palette", "aria-label": "Find or do" }, h("div", { class: "palette-field" }, icon("search"), input), list);
  made.addEventListener("click", (event) => {
    if (event.target === made) made.close();
  });
  document.body.append(made);
  return made;
}

async function refresh() {
  try {
    const answer = await ask("GET", "/api/sessions?limit=100");
    sessions = answer.items.map(({ session_id, name, status, wake_at, agent_id }) => ({ session_id, name, status, wake_at, agent_id }));
    sessionStorage.setItem(MEMORY, JSON.stringify(sessions));
    show();
  } catch {
    // what is remembered stays on show
  }
}

function remembered() {
  try {
    return JSON.parse(sessionStorage.getItem(MEMORY)) ?? [];
  } catch {
    return [];
  }
}

function onKey(event) {
  const moves = { ArrowDown: 1, ArrowUp: -1 };
  if (event.key in moves) {
    event.preventDefault();
    chosen = (chosen + moves[event.key] + entries.length) % Math.max(1, entries.length);
    mark();
  } else if (event.key === "Enter") {
    event.preventDefault();
    run(entries[chosen]);
  }
}

function run(entry) {
  if (!entry) return;
  dialog.close();
  entry.run();
}

function show() {
  const query = input.value.trim().toLowerCase();
  const fits = (entry) => !query || query.split(/\s+/).every((word) => entry.search.includes(word));
  entries = [...actions(), ...pages(), ...sessions.map(sessionEntry)].filter(fits).slice(0, SHOWN);
  if (LOOKS_LIKE_ID.test(input.value.trim())) entries.push(...byId(input.value.trim()));
  list.replaceChildren(...entries.map(row));
  if (!entries.length) list.append(h("li", { class: "muted", role: "option", "aria-selected": "false", "aria-disabled": "true" }, "Nothing fits"));
  mark();
}

function row(entry, index) {
  const id = `palette-${index}`;
  const attributes = { id, role: "option", "aria-selected": "false", click: () => run(entry) };
  return h("li", attributes, icon(entry.icon, entry.tone), h("span", { class: "label" }, entry.label), h("span", { class: "hint" }, entry.hint ?? ""));
}

function mark() {
  const options = all("[role=option]", list);
  options.forEach((option, index) => option.setAttribute("aria-selected", String(index === chosen)));
  input.setAttribute("aria-activedescendant", options[chosen]?.id ?? "");
  options[chosen]?.scrollIntoView({ block: "nearest" });
}

function actions() {
  return all("[data-action]")
    .filter((button) => !button.disabled)
    .map((button) => ({ label: button.dataset.action, icon: "bolt", hint: "here", run: () => button.click() }))
    .map(searchable);
}

function pages() {
  const links = all(".rail [data-shortcut]").map((link) => ({
    label: one(".label", link).textContent,
    icon: one("use", link).getAttribute("href").replace("#i-", ""),
    hint: link.dataset.shortcut,
    run: () => location.assign(link.href),
  }));
  const theme = { label: "Change the theme", icon: "theme", hint: "t", run: () => one("[data-theme-toggle]").click() };
  return [...links, theme].map(searchable);
}

function sessionEntry(session) {
  const { word, tone, glyph } = stateOf(session);
  const hint = `${word} · ${session.agent_id} · ${shortId(session.session_id)}`;
  const search = `${session.name} ${session.session_id} ${hint}`.toLowerCase();
  return { label: session.name, icon: glyph, tone: `t-${tone}`, hint, search, run: () => location.assign(sessionPath(session.session_id)) };
}

function byId(id) {
  if (sessions.some((session) => session.session_id.toLowerCase() === id.toLowerCase())) return [];
  return [
    { label: `Open session ${id}`, icon: "sessions", run: () => location.assign(sessionPath(id)) },
    { label: `Open conversation ${id}`, icon: "conversations", run: () => location.assign(`/conversations/${encodeURIComponent(id)}`) },
  ];
}

const searchable = (entry) => ({ ...entry, search: `${entry.label} ${entry.hint ?? ""}`.toLowerCase() });
