// The list of copilots: rows change in place, new ones come on top; and the sheet that begins one.

import { live, startFrame } from "./banner.js";
import { all, allow, ask, growList, h, isFinal, one, setText, stateMark, stateOf } from "./dom.js";
import { asCopilot, copilotPath, isDryRun, setTitle } from "./copilotwords.js";
import { Newest } from "./live.js";
import { ageOf, elapsed } from "./time.js";

const MONIKER = "copilot";
const MAX_ROWS = 150;

const list = one("[data-list]");
const rows = one("[data-rows]");
const newPill = one("[data-new]");
const newest = new Newest();
const held = new Map(); // sessions that wait for a click, so that nothing moves under the pointer
const isFirstPage = !new URLSearchParams(location.search).has("cursor");

const turnsOf = (session) => String(session.step_token && session.iteration !== null ? session.iteration + 1 : 0);
const rowFor = (id) => one(`[data-session-id="${CSS.escape(id)}"]`, rows);

function rowOf(session) {
  const row = h(
    "li",
    { class: "row fresh", "data-session-id": session.session_id, "data-status": session.status },
    stateMark(asCopilot(session)),
    h("a", { class: "name", href: copilotPath(session.session_id), title: session.session_id }, session.name),
    h("span", { class: "line" }, setTitle(session)),
    h("span", { class: "num steps" }, turnsOf(session)),
    ageOf(session.created_at, "num age"),
    h("span", { class: "num took" }),
  );
  showTook(row, session);
  if (session.conversation_id) showTitle(row, session);
  return row;
}

/** The title is its thread's; an event does not bring it. */
async function showTitle(row, session) {
  try {
    const { title } = await ask("GET", `/api/conversations/${encodeURIComponent(session.conversation_id)}`);
    if (title) setText(one(".name", row), title);
  } catch {
    // its name in two words does
  }
}

function showTook(row, session) {
  const took = one(".took", row);
  took.dataset.since = session.created_at;
  if (isFinal(session.status)) took.dataset.until = session.updated_at;
  else delete took.dataset.until;
  if (took.dataset.until || !took.textContent) setText(took, elapsed(session.created_at, took.dataset.until));
}

function updateRow(row, session) {
  const hasChanged = row.dataset.status !== session.status || one(".state .word", row).textContent !== stateOf(asCopilot(session)).word;
  row.dataset.status = session.status;
  if (hasChanged) one(".state", row).replaceWith(stateMark(asCopilot(session)));
  setText(one(".steps", row), turnsOf(session));
  showTook(row, session);
}

function apply(events) {
  const latest = new Map();
  for (const { event, data } of events) {
    if (event === "state" && data.moniker === MONIKER && !isDryRun(data) && newest.accepts(data.session_id, data.updated_at)) latest.set(data.session_id, data);
  }
  for (const session of latest.values()) {
    const row = rowFor(session.session_id);
    if (row) updateRow(row, session);
    else if (isFirstPage) hold(session);
  }
  return latest.size;
}

function hold(session) {
  held.set(session.session_id, session);
  if (!rows.matches(":hover") && scrollY < 40) showHeld();
  else showPill();
}

function showPill() {
  newPill.hidden = held.size === 0;
  setText(newPill, `${held.size} new ↑`);
}

function showHeld() {
  const sessions = [...held.values()].sort((a, b) => (a.created_at < b.created_at ? -1 : 1));
  held.clear();
  for (const session of sessions) rows.prepend(rowOf(session));
  while (rows.children.length > MAX_ROWS) rows.lastElementChild.remove();
  rows.hidden = false;
  one("[data-empty]").hidden = true;
  showPill();
}

/** The server cannot continue from our cursor: read the newest rows once. */
async function resync() {
  const { items } = await ask("GET", `/api/sessions?moniker=${MONIKER}&limit=50`);
  apply(items.toReversed().map((data) => ({ event: "state", data })));
}

function wireStart() {
  const sheet = one("[data-start-sheet]");
  for (const button of all("[data-start]")) {
    allow(button);
    button.addEventListener("click", async () => {
      const { openSets } = await import("./copilotstart.js");
      openSets(sheet);
    });
  }
  one("[data-close]", sheet).addEventListener("click", () => sheet.close());
  sheet.addEventListener("click", (event) => {
    if (event.target === sheet) sheet.close();
  });
}

startFrame();
for (const row of all("[data-session-id]", rows)) newest.accepts(row.dataset.sessionId, row.dataset.updated);
newPill.addEventListener("click", showHeld);
growList(rows);
wireStart();
live.follow({ topic: "sessions" }, list.dataset.liveCursor, { apply, resync });
