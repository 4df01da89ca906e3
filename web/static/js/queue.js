// The queue: what was asked for and how far it is. Rows change in place; dead and failed ones can be put back.

import { live, showBadge, startFrame } from "./banner.js";
import { all, allow, ask, firstLine, growList, h, jsonParts, one, onceAtATime, pageData, sessionName, sessionPath, setText, stateMark } from "./dom.js";
import { Newest } from "./live.js";
import { ageOf, exact } from "./time.js";
import { isOpen, nextMoment, tries } from "./words.js";

const MAX_ROWS = 150;
const COUNT_EVERY_MS = 1_000;
const PUT_BACK = ["dead", "failed"];
const buttonOf = ({ status, kind }) =>
  PUT_BACK.includes(status) ? ["data-requeue", "Requeue"] : status === "pending" && kind !== "cancel" ? ["data-cancel", "Cancel"] : null;

const list = one("[data-list]");
const rows = one("[data-rows]");
const newPill = one("[data-new]");
const newest = new Newest();
const actions = new Map();
const held = new Map(); // actions that wait for a click, so that nothing moves under the pointer
const isFirstPage = !new URLSearchParams(location.search).has("cursor");
const shownStatuses = one(`[data-tab="${list.dataset.tab}"]`, one(".tabs")).dataset.statuses.split(" ").filter(Boolean);

function rowOf(action) {
  const row = h("li", { class: "row fresh", "data-action-id": action.id });
  const who = action.session_id
    ? h("a", { class: "who", href: sessionPath(action.session_id), title: action.session_id }, sessionName(action.session_id))
    : h("span", { class: "who" });
  row.append(
    stateMark(action),
    h("button", { type: "button", class: "name kind", "aria-expanded": "false", title: action.id }, action.kind),
    who,
    h("span", { class: "line" }, h("span", { class: "moment" }), " ", h("span", { class: "error" })),
    h("span", { class: "num tries" }),
    ageOf(action.created_at, "num age"),
    h("span", { class: "act" }),
  );
  update(row, action);
  return row;
}

function update(row, action) {
  if (row.dataset.status !== action.status) one(".state", row).replaceWith(stateMark(action));
  row.dataset.status = action.status;
  row.dataset.processed = action.processed_at ?? "";
  setText(one(".moment", row), nextMoment(action));
  setText(one(".line .error", row), firstLine(action.error));
  setText(one(".tries", row), tries(action));
  const act = one(".act", row);
  const wanted = buttonOf(action);
  if (!wanted) act.replaceChildren();
  else if (!one(`[${wanted[0]}]`, act)) act.replaceChildren(h("button", { type: "button", [wanted[0]]: true }, wanted[1]));
  allowButtons(row);
  const detail = one(".detail", row);
  if (detail) detail.replaceChildren(...partsOf(action));
}

const allowButtons = (place) => all("[data-requeue], [data-cancel]", place).forEach((button) => allow(button));
const rowFor = (id) => one(`[data-action-id="${CSS.escape(id)}"]`, rows);

function apply(events) {
  const latest = new Map();
  for (const { event, data } of events) {
    if (event === "action" && newest.accepts(data.id, data.processed_at)) latest.set(data.id, data);
  }
  for (const action of latest.values()) {
    actions.set(action.id, action);
    const row = rowFor(action.id);
    if (row) update(row, action);
    else if (isFirstPage && (!shownStatuses.length || shownStatuses.includes(action.status))) hold(action);
  }
  if (latest.size) countSoon();
  return latest.size;
}

function hold(action) {
  held.set(action.id, action);
  if (!rows.matches(":hover") && scrollY < 40) showHeld();
  else showPill();
}

function showPill() {
  newPill.hidden = held.size === 0;
  setText(newPill, `${held.size} new ↑`);
}

function showHeld() {
  const sorted = [...held.values()].sort((a, b) => (a.created_at < b.created_at ? -1 : 1));
  held.clear();
  for (const action of sorted) rows.prepend(rowOf(action));
  while (rows.children.length > MAX_ROWS) {
    actions.delete(rows.lastElementChild.dataset.actionId);
    rows.lastElementChild.remove();
  }
  rows.hidden = false;
  one("[data-empty]").hidden = true;
  showPill();
}

// --- counts: always the server's --------------------------------------------------------------------------------------------

let countTimer = null;

function countSoon() {
  countTimer ??= setTimeout(count, COUNT_EVERY_MS);
}

async function count() {
  countTimer = null;
  try {
    const { counts } = await ask("GET", "/api/queue?limit=1");
    showCounts(counts);
  } catch {
    // the next change asks again
  }
}

function showCounts(counts) {
  showBadge("queue", counts.dead);
  const everything = Object.values(counts).reduce((sum, number) => sum + number, 0);
  for (const tab of all(".tabs a")) {
    const statuses = tab.dataset.statuses.split(" ").filter(Boolean);
    const number = statuses.length ? statuses.reduce((sum, status) => sum + (counts[status] ?? 0), 0) : everything;
    const place = one("[data-count]", tab);
    setText(place, String(number));
    place.classList.toggle("zero", number === 0);
  }
  const open = (counts.pending ?? 0) + (counts.claimed ?? 0);
  document.title = `${open ? `${open} open · ` : ""}Queue · Stepwell`;
}

async function resync() {
  const { items, counts } = await ask("GET", "/api/queue?limit=50");
  showCounts(counts);
  apply(items.toReversed().map((data) => ({ event: "action", data })));
}

// --- details and putting back -------------------------------------------------------------------------------------------------

function partsOf(action) {
  const facts = [
    action.id,
    action.owner ? `owner ${action.owner}` : null,
    exact(action.created_at),
    isOpen(action) && action.not_before ? `not before ${exact(action.not_before)}` : null,
    action.urgency ? `urgency ${action.urgency}` : null,
    action.processed_at ? `processed ${exact(action.processed_at)}` : null,
  ];
  return [h("p", { class: "muted" }, facts.filter(Boolean).join(" · ")), jsonParts(action, ["error", "payload", "metadata"])];
}

function toggle(button) {
  const row = button.closest("li");
  const isOpen = button.getAttribute("aria-expanded") === "true";
  button.setAttribute("aria-expanded", String(!isOpen));
  if (isOpen) {
    one(".detail", row).remove();
    return;
  }
  const action = actions.get(row.dataset.actionId);
  row.append(h("div", { class: "detail" }, ...(action ? partsOf(action) : [h("p", { class: "muted" }, "Its details are gone from this page. Reload to see them.")])));
}

async function requeue(button) {
  const row = button.closest("li");
  try {
    await ask("POST", `/api/queue/${encodeURIComponent(row.dataset.actionId)}/requeue`, {});
    setText(button, "Put back");
    allow(button, "It is in the queue again.");
  } catch (problem) {
    setText(one(".line .error", row), problem.message);
  }
}

async function cancel(button) {
  const row = button.closest("li");
  try {
    const { action_id: asked } = await ask("POST", `/api/queue/${encodeURIComponent(row.dataset.actionId)}/cancel`, {});
    setText(button, "Asked");
    allow(button, `Action ${asked} cancels it, unless it has begun.`);
  } catch (problem) {
    setText(one(".line .error", row), problem.message);
  }
}

/** What the server said in its own time zone, in the reader's. */
function showMoments() {
  for (const row of rows.children) setText(one(".moment", row), nextMoment(actions.get(row.dataset.actionId) ?? {}));
}

startFrame();
for (const action of pageData("actions")) {
  actions.set(action.id, action);
  newest.accepts(action.id, action.processed_at);
}
showMoments();
allowButtons(rows);
rows.addEventListener("click", (event) => {
  const kind = event.target.closest(".kind");
  const again = event.target.closest("[data-requeue]");
  if (kind) toggle(kind);
  if (again) onceAtATime(again, () => requeue(again));
  const back = event.target.closest("[data-cancel]");
  if (back) onceAtATime(back, () => cancel(back));
});
newPill.addEventListener("click", showHeld);
growList(rows, (page) => {
  for (const action of JSON.parse(one("#actions", page).textContent)) actions.set(action.id, action);
  showMoments();
  allowButtons(rows);
});
live.follow({ topic: "queue" }, list.dataset.liveCursor, { apply, resync });
