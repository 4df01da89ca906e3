// Budgets: bars that follow what is spent, and the sheet that sets or raises one.

import { live, startFrame } from "./banner.js";
import { all, allow, ask, growList, one, onceAtATime, pageData, say } from "./dom.js";

const REFRESH_MS = 2_000;
const COUNTS = ["tokens", "calls", "steps", "time_s", "unpriced_calls"];

const list = one("[data-list]");
const rows = one("[data-rows]");
const sheet = one("[data-budget-sheet]");
const form = one("[data-budget-form]");
const submit = one("[data-submit]", form);
const remove = one("[data-remove]", form);
const known = new Map();
const pathOf = (scope) => `/api/budgets/${encodeURIComponent(scope)}`;

function remember(items) {
  for (const budget of items) known.set(budget.scope, budget);
}

// --- the sheet ---------------------------------------------------------------------------------------------------------

function open(budget = null) {
  clearErrors();
  form.reset();
  if (budget) {
    form.elements.kind.value = budget.kind;
    form.elements.id.value = budget.id ?? "";
    for (const [name, amount] of Object.entries(budget.limits)) form.elements[name].value = String(amount);
  }
  for (const name of ["kind", "id"]) form.elements[name].disabled = Boolean(budget);
  one("[data-title]", sheet).textContent = budget?.is_spent ? "Raise a budget" : budget ? "Change a budget" : "Set a budget";
  remove.hidden = !budget || budget.updated_by === "its create";
  remove.dataset.scope = budget?.scope ?? "";
  showId();
  sheet.showModal();
  if (budget) one("[name=tokens]", form).focus();
}

function showId() {
  one('[data-field="id"]', form).hidden = form.elements.kind.value === "total";
}

function scopeOf() {
  const kind = form.elements.kind.value;
  return kind === "total" ? kind : `${kind}:${form.elements.id.value.trim()}`;
}

function limitsOf() {
  const given = [...COUNTS, "money"].map((name) => [name, form.elements[name].value.trim()]).filter(([, text]) => text);
  // What is no number goes as it is: the server says what is wrong with it.
  const amount = (name, text) => (name === "money" || Number.isNaN(Number(text)) ? text : Number(text));
  return Object.fromEntries(given.map(([name, text]) => [name, amount(name, text)]));
}

function clearErrors() {
  for (const place of all("[data-field-error], [data-form-error]", form)) place.textContent = "";
}

function showErrors(problem) {
  const placed = (problem.errors ?? []).filter(({ field, message }) => {
    const name = String(field).split(".").find((part) => one(`[data-field="${CSS.escape(part)}"]`, form));
    if (name) one(`[data-field="${CSS.escape(name)}"] [data-field-error]`, form).textContent = message;
    return name;
  });
  if (!placed.length) one("[data-form-error]", form).textContent = problem.message;
}

async function put() {
  clearErrors();
  if (form.elements.kind.value !== "total" && !form.elements.id.value.trim()) {
    one('[data-field="id"] [data-field-error]', form).textContent = "Say which one";
    return;
  }
  try {
    await ask("PUT", pathOf(scopeOf()), { limits: limitsOf() });
    await done("Set. Sessions that it held go on.");
  } catch (problem) {
    showErrors(problem);
  }
}

async function takeAway() {
  clearErrors();
  try {
    await ask("DELETE", pathOf(remove.dataset.scope));
    await done("Removed.");
  } catch (problem) {
    showErrors(problem);
  }
}

async function done(words) {
  sheet.close();
  await refresh();
  say(words);
}

// --- the list ----------------------------------------------------------------------------------------------------------

let timer = null;

function refreshSoon() {
  timer ??= setTimeout(refresh, REFRESH_MS);
}

/** Take the server's newest page: bars change in place, so that nobody loses the button under the pointer. */
async function refresh() {
  clearTimeout(timer);
  timer = null;
  let page;
  try {
    const answer = await fetch(location.pathname + location.search);
    if (!answer.ok) return;
    page = new DOMParser().parseFromString(await answer.text(), "text/html");
  } catch {
    return; // the next change asks again
  }
  known.clear();
  remember(JSON.parse(one("#budgets", page).textContent));
  const fresh = new Map(all("[data-rows] > li", page).map((row) => [row.dataset.scopeId, row]));
  for (const row of [...rows.children]) {
    const now = fresh.get(row.dataset.scopeId);
    if (!now) row.remove();
    else update(row, now);
  }
  const shown = new Set([...rows.children].map((row) => row.dataset.scopeId));
  for (const [scope, row] of fresh) if (!shown.has(scope)) rows.append(document.adoptNode(row));
  for (const scope of fresh.keys()) rows.append([...rows.children].find((row) => row.dataset.scopeId === scope));
  rows.hidden = fresh.size === 0;
  one("[data-empty]", list).hidden = fresh.size > 0;
  allowButtons();
}

function update(row, now) {
  for (const part of ["[data-bars]", "[data-changed]"]) one(part, row).replaceWith(document.adoptNode(one(part, now)));
  const [button, wanted] = [one("[data-edit]", row), one("[data-edit]", now)];
  button.textContent = wanted.textContent;
  button.setAttribute("aria-label", wanted.getAttribute("aria-label"));
}

const allowButtons = () => all("[data-edit], [data-create]").forEach((button) => allow(button));

startFrame();
remember(pageData("budgets"));
allowButtons();
allow(submit);
allow(remove);
for (const button of all("[data-create]")) button.addEventListener("click", () => open());
rows.addEventListener("click", (event) => {
  const button = event.target.closest("[data-edit]");
  if (button) open(known.get(button.closest("li").dataset.scopeId));
});
form.addEventListener("submit", (event) => {
  event.preventDefault();
  onceAtATime(submit, put);
});
remove.addEventListener("click", () => onceAtATime(remove, takeAway));
form.elements.kind.addEventListener("change", showId);
one("[data-close]", sheet).addEventListener("click", () => sheet.close());
sheet.addEventListener("click", (event) => {
  if (event.target === sheet) sheet.close();
});
growList(rows, (page) => {
  remember(JSON.parse(one("#budgets", page).textContent));
  allowButtons();
});
live.follow({ topic: "sessions" }, list.dataset.liveCursor, {
  apply: (events) => {
    if (events.length) refreshSoon();
    return events.length;
  },
  resync: refresh,
});
